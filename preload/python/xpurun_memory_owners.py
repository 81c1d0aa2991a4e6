"""Which tensors Python knows and what they are for; the containers that hold them; and the lines of Python that
allocate. xpurun_memory.py reads this file.

No method of a subclass of Tensor is called.
"""
import gc
import sys

settings = globals()["settings"]  # given by sitecustomize.py

segment = settings["part"]("xpurun_segment")["segment"]
TRACED_TENSORS = ("FakeTensor", "FunctionalTensor", "Proxy")  # without memory
WRAPPERS = ("module", "_fsdp_wrapped_module", "_orig_mod", "_checkpoint_wrapped_module")  # parts of a module's path
MOST_DEPTH = 16  # of modules
TENSOR, MODULE, OPTIMIZER, DDP = 1, 2, 3, 4
MOST_GROUPS = 12  # of tensors whose container is looked for
MOST_LEVELS = 3  # of containers
MOST_STACK = 64
MOST_TRACE = 8  # frames of an allocation by Python
MOST_SITES = 40
OPTIMIZED = 1  # co_flags: a function, whose f_locals is a copy before CPython 3.13
Frame, Function = type(sys._getframe()), type(lambda: 0)
Cell = type((lambda x: lambda: x)(0).__closure__[0])


class Ours(list):
    """A list that is no container of the program."""


class Owner:
    """A storage."""

    __slots__ = ("category", "name", "size", "device", "address", "tensor")

    def __init__(self, category, name, size, device, address, tensor):
        self.category = category
        self.name = name
        self.size = size
        self.device = device
        self.address = address
        self.tensor = tensor

    def kind_of_host_memory(self):
        try:
            torch = sys.modules["torch"]
            with torch._C.DisableTorchFunction():
                if self.tensor.is_shared():
                    return "shared"
                if torch.cuda.is_initialized() and self.tensor.is_pinned():
                    return "pinned"
        except Exception:
            pass
        return "tensors"


class Owners:
    """All storages that a tensor of Python refers to."""

    def __init__(self, torch):
        self.errors = 0
        self.by_storage = {}
        self.buckets = set()  # bytes of DistributedDataParallel's
        self.Tensor = torch.Tensor
        self.untyped = getattr(torch.Tensor, "untyped_storage", None) or torch.Tensor._storage
        self.address = getattr(torch._C, "_data_address", None)  # data_ptr() may copy a tensor that is copied on write
        # Of Tensor itself: a subclass may have other ones.
        self.device_of, self.layout_of, self.is_leaf, self.grad_of = (
            getattr(torch.Tensor, name).__get__ for name in ("device", "layout", "is_leaf", "grad"))
        self.sorted = {}  # by device: addresses and owners
        found = self.find(torch)
        with torch._C.DisableTorchFunction():
            self.classify(found)
            try:
                self.name_containers()
            except Exception:
                self.errors += 1
        for one in self.by_storage.values():
            if not one.device.startswith("cpu"):
                self.sorted.setdefault(one.device, []).append((one.address, id(one), one))
        for found in self.sorted.values():
            found.sort()

    def find(self, torch):
        module, optimizer = torch.nn.Module, torch.optim.Optimizer
        kinds = {}
        found = {TENSOR: Ours(), MODULE: Ours(), OPTIMIZER: Ours(), DDP: Ours()}

        def what_of(kind):
            try:
                order = kind.__mro__
                if torch.Tensor in order:
                    return 0 if kind.__name__ in TRACED_TENSORS else TENSOR
                if module in order:
                    return DDP if kind.__name__ == "DistributedDataParallel" else MODULE
                return OPTIMIZER if optimizer in order else 0
            except Exception:
                return 0

        for one in gc.get_objects():
            kind = type(one)
            what = kinds.get(id(kind))
            if what is None:
                what = kinds[id(kind)] = what_of(kind)
            if what:
                found[what].append(one)
        return found

    def put(self, tensor, category, name):
        """Unless another tensor has claimed the memory. Category None: of no module or optimizer."""
        try:
            if type(tensor).__name__ == "DTensor":
                tensor = tensor._local_tensor
            device = self.device_of(tensor)
            if device.type == "meta" or self.layout_of(tensor) is not sys.modules["torch"].strided:
                return
            storage = self.untyped(tensor)
            key = storage._cdata
            if key in self.by_storage:
                return
            size = storage.nbytes()
            if not size:
                return
            where = "cpu" if device.type == "cpu" else "%s:%d" % (device.type, device.index or 0)
            if category is None:
                category = "tensors" if self.is_leaf(tensor) else "activations"
            address = 0
            if where != "cpu":
                address = self.address(tensor) if self.address is not None else storage.data_ptr()
            self.by_storage[key] = Owner(category, name, size, where, address, tensor)
        except Exception:
            self.errors += 1

    def each(self, objects, action):
        """Classes of a program may behave in any way; the other objects are still seen."""
        for one in objects:
            try:
                action(one)
            except Exception:
                self.errors += 1

    def classify(self, found):
        modules = found[MODULE] + found[DDP]
        parents = {}
        params = {}  # by id: tensor and name
        buffers = Ours()

        def find_children(module):
            for name, child in list((module.__dict__.get("_modules") or {}).items()):
                parents[id(child)] = module, name

        def find_tensors(module):
            path = None
            for table in ("_parameters", "_buffers"):
                for name, tensor in list((module.__dict__.get(table) or {}).items()):
                    if isinstance(tensor, self.Tensor):
                        path = path or path_of(module, parents)
                        if table == "_buffers":
                            buffers.append((tensor, path + "." + name))
                        else:
                            params.setdefault(id(tensor), (tensor, path + "." + name))

        def find_params(optimizer):
            for group in list(optimizer.__dict__.get("param_groups") or ()):
                for tensor in list(group.get("params") or ()):
                    params.setdefault(id(tensor), (tensor, "of " + type(optimizer).__name__))

        def put_state(optimizer):
            for values in list((optimizer.__dict__.get("state") or {}).values()):
                for name, value in list(values.items()) if type(values) is dict else ():
                    if isinstance(value, self.Tensor):
                        self.put(value, "optimizer", type(optimizer).__name__ + " " + str(name))

        self.each(modules, find_children)
        self.each(modules, find_tensors)
        self.each(found[OPTIMIZER], find_params)
        for tensor in found[TENSOR]:
            if type(tensor).__name__ == "FlatParameter":  # FSDP: the parameters of the modules are views of its shard
                params.setdefault(id(tensor), (tensor, "FlatParameter"))
        for tensor, name in params.values():
            self.put(tensor, "parameters", name)
        self.each(params.values(), self.put_attributes)
        self.each(found[OPTIMIZER], put_state)
        for tensor, name in buffers:
            self.put(tensor, "buffers", name)
        for one in found[DDP]:
            self.find_buckets(one)
        for tensor in found[TENSOR]:
            self.put(tensor, None, "")

    def put_attributes(self, param):
        """The gradient, and what FSDP and Megatron attach to a parameter."""
        tensor, name = param
        grad = self.grad_of(tensor) if self.is_leaf(tensor) else None
        if grad is not None:
            self.put(grad, "gradients", name)
        for key, value in list(tensor.__dict__.items()):
            if isinstance(value, self.Tensor):
                self.put(value, "gradients" if "grad" in key else "parameters", name + " " + key)

    def find_buckets(self, module):
        try:
            data = module.__dict__["logger"]._get_ddp_logging_data().strs_map
            for key in ("bucket_sizes", "rebuilt_bucket_sizes"):
                self.buckets.update(int(size) for size in data.get(key, "").split(",") if size.strip().isdigit())
        except Exception:
            pass  # this release of torch is different

    def on(self, device):
        return [one for one in self.by_storage.values() if one.device == device]

    def in_block(self, device, begin, size):
        found = self.sorted.get(device)
        if not found:
            return None
        low, high = 0, len(found)
        while low < high:
            middle = (low + high) // 2
            if found[middle][0] < begin:
                low = middle + 1
            else:
                high = middle
        return found[low][2] if low < len(found) and found[low][0] < begin + size else None

    def name_containers(self):
        """For the largest groups of equal tensors. Tensors that a leak keeps are often equal."""
        groups = {}
        for one in self.by_storage.values():
            if not one.name:
                tensor = one.tensor
                key = one.device, one.category, one.size, str(tensor.dtype), tuple(tensor.shape)
                groups.setdefault(key, Ours()).append(one)
        largest = sorted(groups.values(), key=lambda group: -sum(one.size for one in group))[:MOST_GROUPS]
        unnamed = {id(one.tensor): one for one in self.by_storage.values() if not one.name}
        wanted = Ours()
        for group in largest:
            wanted.extend({id(one.tensor): one.tensor for one in (group[0], group[len(group) // 2])}.values())
        if not wanted:
            return
        names = Names(wanted)
        for container, name in names.containers:
            for member in gc.get_referents(container):
                one = unnamed.get(id(member))
                if one is not None and not one.name:
                    one.name = name
        for group in largest:
            for one in group:
                one.name = one.name or names.local_name(one.tensor)
        for group in largest:
            first, middle = (names.of.get(id(one.tensor), "") for one in (group[0], group[len(group) // 2]))
            for one in group if first and first == middle else ():
                one.name = one.name or first


def path_of(module, parents):
    """"GPT.layers.#.mlp": the class of the outermost module, and the path below it without numbers."""
    names = []
    for _ in range(MOST_DEPTH):
        found = parents.get(id(module))
        if found is None:
            break
        parent, name = found
        if name in WRAPPERS:
            if parents.get(id(parent)) is None:
                break
        else:
            names.append("#" if name.isdigit() else name)
        module = parent
    return ".".join([type(module).__name__] + names[::-1])


class Names:
    """By id of an object the words for the place where the program keeps it. `containers`: with their words, those that
    hold one of the wanted objects."""

    def __init__(self, wanted):
        self.locals = {}
        self.look_into_frames()
        self.containers = Ours()
        self.of = {}
        self.instances = {}  # by id of their __dict__: the name of the class
        self.find(wanted, 0)

    def local_name(self, value):
        known = self.locals.get(id(value))
        return "" if known is None else "%s %s of %s" % (type(value).__name__, *known)

    def look_into_frames(self):
        for frame in list(sys._current_frames().values()):
            for _ in range(MOST_STACK):
                if frame is None:
                    break
                code = frame.f_code
                if not code.co_filename.startswith(("<xpurun", "<frozen", segment.package)):
                    self.look_into_frame(frame, code)
                frame = frame.f_back

    def look_into_frame(self, frame, code):
        if not code.co_flags & OPTIMIZED:
            return  # its variables are those of a module
        place = "%s() (%s:%d)" % (code.co_name, code.co_filename.rpartition("/")[2], frame.f_lineno or 0)
        values = frame.f_locals
        for name, value in list(values.items()):
            self.locals.setdefault(id(value), (name, place))
        # Before CPython 3.13 the frame keeps the copy, which would keep tensors alive. 3: the frame, `values` and the
        # argument; more: the program has the copy from locals().
        if type(values) is dict and sys.getrefcount(values) <= 3:
            values.clear()

    def find(self, wanted, level):
        """Puts words for the wanted objects into `of`."""
        missing = Ours()
        for one in wanted:
            known = self.local_name(one)
            if known:
                self.of[id(one)] = known
            else:
                missing.append(one)
        if not missing or level > MOST_LEVELS:
            return
        ids = {id(one): one for one in missing}
        above = Ours()
        for holder in gc.get_referrers(*missing):
            kind = type(holder)
            if kind in (Ours, Frame, Function, Owner) or holder is ids:
                continue
            if kind is dict and self.is_variables(holder):
                self.name_values(holder, holder["__name__"], ids)
            elif issubclass(kind, (dict, list, tuple, set)) or not kind.__dictoffset__:
                above.append(holder)
            elif not issubclass(kind, sys.modules["torch"].Tensor):
                self.name_attributes(holder, kind, ids)
        # What names itself is not looked for further.
        above = Ours(one for one in above if any(id(x) in ids and id(x) not in self.of for x in gc.get_referents(one)))
        if len(above) > 32:
            del above[32:]
        if above:
            self.find(above, level + 1)
        for holder in above:
            owner = self.instances.get(id(holder))
            if owner is not None:
                self.name_values(holder, owner, ids)
                continue
            name = self.of.get(id(holder))
            if name is None:
                continue
            if level == 0 and type(holder) is not Cell:
                self.containers.append((holder, name))
            for member in gc.get_referents(holder):
                if id(member) in ids:
                    self.of.setdefault(id(member), name)

    @staticmethod
    def is_variables(holder):
        """Whether the dict is that of a module."""
        module = sys.modules.get(holder.get("__name__")) if type(holder.get("__name__")) is str else None
        return module is not None and getattr(module, "__dict__", None) is holder

    def name_values(self, variables, owner, ids):
        for name, value in list(variables.items()):
            if id(value) in ids:
                self.of.setdefault(id(value), "%s %s.%s" % (type(value).__name__, owner, name))

    def name_attributes(self, holder, kind, ids):
        variables = getattr(holder, "__dict__", {})
        if id(variables) in ids:
            self.instances[id(variables)] = kind.__name__
        self.name_values(variables, kind.__name__, ids)


class PythonTraces:
    """What Python's allocator has allocated since then and still holds, by line. Not while the program traces."""

    def __init__(self):
        import _tracemalloc
        self.module = None
        self.kept = []
        self.total = 0
        if not _tracemalloc.is_tracing():
            _tracemalloc.start(MOST_TRACE)
            self.module = _tracemalloc

    def take(self, steps):
        """Ends the tracing, which makes all that follows slow."""
        if self.module is None:
            return
        sites = {}
        try:
            for _, size, frames, *_ in self.module._get_traces():
                self.total += size
                known = sites.get(frames)
                if known is None:
                    sites[frames] = [1, size]
                else:
                    known[0] += 1
                    known[1] += size
        finally:
            self.module.stop()
        # Less than one object a step is no growth with the steps.
        self.kept = [(frames, one) for frames, one in sites.items() if one[0] >= steps and not is_ours(frames)]
        self.kept.sort(key=lambda item: -item[1][1])
        del self.kept[MOST_SITES:]

    def add_to(self, look):
        if self.module is None:
            return
        functions = functions_at({place for frames, _ in self.kept for place in frames})
        for frames, (count, size) in self.kept:
            site = tuple([look.places.of(file, line, functions.get((file, line), "")) for file, line in frames])
            look.add("python", "objects", "", size, site, 0, count)
        look.devices["python"] = {"name": "python", "allocated": self.total}


def is_ours(frames):
    return any(file.startswith("<xpurun") for file, _ in frames)


def functions_at(places):
    """Names of the functions with these lines; tracemalloc does not know them."""
    files = {file for file, _ in places}
    best = {}
    seen = set()
    waiting = Ours(one.__code__ for one in gc.get_objects() if type(one) is Function)
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    for file, line in places:
        if file == main:
            best[file, line] = (0, "<module>")
    while waiting:
        code = waiting.pop()
        if id(code) in seen or code.co_filename not in files:
            continue
        seen.add(id(code))
        first = code.co_firstlineno
        last = max((line for _, line in lines_of(code) if line), default=first)
        for file, line in places:
            if file == code.co_filename and first <= line <= last and first >= best.get((file, line), (0,))[0]:
                best[file, line] = first, getattr(code, "co_qualname", None) or code.co_name
        waiting.extend(one for one in code.co_consts if type(one) is type(code))
    return {place: name for place, (_, name) in best.items()}


def lines_of(code):
    lines = getattr(code, "co_lines", None)
    if lines is not None:
        return [(start, line) for start, _, line in lines()]
    at, line, out = 0, code.co_firstlineno, []
    for step, more in zip(code.co_lnotab[::2], code.co_lnotab[1::2]):
        at, line = at + step, line + (more - 256 if more > 127 else more)
        out.append((at, line))
    return out
