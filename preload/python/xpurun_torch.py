"""Records calls of torch.distributed in memory shared with the supervisor (common/wire/python_segment.h).

sitecustomize.py reads this file when torch.distributed.distributed_c10d is imported. A wrapper replaces each public
function of a collective or a point-to-point operation: it records the call, passes everything through, records the
end, and writes a span. Of nested calls only the outermost counts, because the program made it. Calls that fail in here
are not recorded.
"""
import time

settings = globals()["settings"]  # given by sitecustomize.py

shared = settings["part"]("xpurun_segment")
segment = shared["segment"]
(GROUPS, COLLECTIVES, OTHERS, CALL_BYTES, GROUP_AT, GROUP_BYTES, MOST_SITES, COMMUNICATION, SENDS, RECEIVES, OBJECTS,
 PEER_SHIFT) = (
    shared[name] for name in ("GROUPS", "COLLECTIVES", "OTHERS", "CALL_BYTES", "GROUP_AT", "GROUP_BYTES", "MOST_SITES",
                              "COMMUNICATION", "SENDS", "RECEIVES", "OBJECTS", "PEER_SHIFT"))
ASYNC = 1

# Function name: operation, parameter of the tensor (None: no tensor), parameter of the root or the peer.
COLLECTIVE_CALLS = {
    "all_reduce": ("all_reduce", "tensor", None), "broadcast": ("broadcast", "tensor", "src"),
    "reduce": ("reduce", "tensor", "dst"), "all_gather": ("all_gather", "tensor", None),
    "all_gather_into_tensor": ("all_gather", "input_tensor", None),
    "_all_gather_base": ("all_gather", "input_tensor", None),
    "gather": ("gather", "tensor", "dst"), "scatter": ("scatter", "tensor", "src"),
    "reduce_scatter": ("reduce_scatter", "output", None), "reduce_scatter_tensor": ("reduce_scatter", "output", None),
    "_reduce_scatter_base": ("reduce_scatter", "output", None),
    "all_to_all_single": ("all_to_all", "input", None), "all_to_all": ("all_to_all", "input_tensor_list", None),
    "barrier": ("barrier", None, None), "monitored_barrier": ("barrier", None, None),
    "all_gather_object": ("all_gather_object", None, None), "gather_object": ("gather_object", None, "dst"),
    "broadcast_object_list": ("broadcast_object_list", None, "src"),
    "scatter_object_list": ("scatter_object_list", None, "src"),
    # All ranks of the world must call it: a rank that skips the call leaves the others waiting.
    "new_group": ("new_group", None, None),
}
POINT_TO_POINT_CALLS = {
    "send": ("send", "tensor", "dst"), "recv": ("recv", "tensor", "src"),
    "isend": ("send", "tensor", "dst"), "irecv": ("recv", "tensor", "src"),
    "send_object_list": ("send_object_list", None, "dst"), "recv_object_list": ("recv_object_list", None, "src"),
}
ALWAYS_ASYNC = ("isend", "irecv")  # batch_isend_irecv calls these
REDUCTIONS = {"SUM": "sum", "PRODUCT": "product", "MIN": "min", "MAX": "max", "AVG": "avg"}


WRAPPER = """def NAME(*args, **kwargs):
    is_outermost = not getattr(local, "is_inside", False)
    noted = None
    if is_outermost:
        local.is_inside = True
        try:
            noted = enter(args, kwargs, get_frame(1))
        except Exception:
            pass
    try:
        return function(*args, **kwargs)
    finally:
        if is_outermost:
            local.is_inside = False
        if noted is not None:
            try:
                leave(noted)
            except Exception:
                pass
"""
WRAPPER_OF_DESTROY = """def NAME(*args, **kwargs):
    try:
        return function(*args, **kwargs)
    finally:
        try:
            destroyed(*args, **kwargs)
        except Exception:
            pass
"""


class Group:
    """One process group in the segment."""

    __slots__ = ("at", "number", "rank_of", "called", "others", "with_peer")

    def __init__(self, at, number, members):
        self.at = at
        self.number = number
        self.rank_of = {rank: i for i, rank in enumerate(members)}
        self.called = 0
        self.others = 0
        self.with_peer = {}


class Recorder:
    def __init__(self, c10d):
        import _struct
        import _thread
        self.c10d = c10d
        self.local = _thread._local()
        self.pack_record = _struct.Struct("=QQQQ40s").pack_into
        self.pack_tail = _struct.Struct("=IIIiiIIIII").pack
        self.pack = _struct.pack
        self.pack_8 = segment.pack_8
        self.pack_4 = segment.pack_4
        self.text = segment.text
        self.pack_group = _struct.Struct("=IiIIIIII").pack_into
        segment.package = c10d.__file__[:-len("distributed/distributed_c10d.py")]
        self.tails = {}  # per function: the constant part of a record, by the call's position
        self.reductions = {}
        for name, word in REDUCTIONS.items():
            self.reductions[getattr(c10d.ReduceOp, name, None)] = word
        self.forget()

    def forget(self):
        """In a forked child, whose parent owns the memory."""
        self.groups = {}  # by id of the process group; None: the default one
        self.slots = 0
        self.same_members = {}
        for tails in self.tails.values():
            tails.clear()

    def members_of(self, group):
        world = getattr(self.c10d, "_world", None)
        ranks = (world.pg_group_ranks if world is not None else self.c10d._pg_group_ranks)[group]
        return [rank for rank, _ in sorted(ranks.items(), key=lambda item: item[1])]

    def add_groups(self):
        """Adds every group of torch that is not recorded yet, in the order of creation."""
        c10d = self.c10d
        world = getattr(c10d, "_world", None)
        names = world.pg_names if world is not None else c10d._pg_names
        for group, name in list(names.items()):
            if self.groups.get(id(group)) is not None:
                continue
            try:
                self.groups[id(group)] = self.add_group(group, str(name))
            except Exception:
                self.groups[id(group)] = None
        self.groups[None] = self.groups.get(id(c10d._get_default_group()))

    def add_group(self, group, name):
        if self.slots >= GROUPS:
            self.pack_4(segment.memory, 24, 1)
            return None
        members = self.members_of(group)
        rank = self.c10d.get_rank(group)
        if rank < 0:
            return None
        data = self.pack("=%di" % len(members), *members)
        number = self.same_members.get(data, 0)
        self.same_members[data] = number + 1
        value = 0xCBF29CE484222325
        for byte in data:
            value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
        backend = str(self.c10d.get_backend(group))
        at = GROUP_AT + self.slots * GROUP_BYTES
        self.pack_group(segment.memory, at, 1, rank, len(members), self.text(data),
                        self.text("%016x.%d" % (value, number)), self.text(name), self.text(backend), 0)
        self.slots += 1
        self.pack_4(segment.memory, 16, self.slots)
        return Group(at, self.slots, members)

    def destroyed(self, group=None):
        """Forgets the group, or all groups: another group may get the same handle."""
        entry = self.groups.pop(None if group is None else id(group), None)
        gone = [entry]
        if group is None or entry is self.groups.get(None):
            gone += self.groups.values()
            self.groups = {}
        for one in gone:
            if one is not None:
                self.pack_4(segment.memory, one.at, 2)

    def find_group(self, group, key):
        if key not in self.groups:
            if not segment.request():
                return None
            self.add_groups()
            if key not in self.groups:
                self.groups[key] = None
        return self.groups[key]

    def site_of(self, frame):
        code = frame.f_code
        return (self.text(code.co_filename), self.text(getattr(code, "co_qualname", None) or code.co_name),
                frame.f_lineno or 0)

    def wrap(self, name, function, op, tensor_name, partner_name, is_collective):
        original = function
        while hasattr(original, "__wrapped__"):
            original = original.__wrapped__
        code = original.__code__
        names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]

        def position(parameter):
            return names.index(parameter) if parameter in names else -1

        tensor_at, partner_at, group_at = position(tensor_name), position(partner_name), position("group")
        if tensor_at < 0 and tensor_name is not None:
            # The name differs between releases of torch; the position does not.
            tensor_at = 1 if name in ("all_gather", "all_gather_into_tensor", "_all_gather_base", "all_to_all_single",
                                      "all_to_all") else 0
        op_at, async_at = position("op"), position("async_op")
        partner_in_group = None if partner_name is None else "group_" + partner_name
        in_group_at = position(partner_in_group)
        members_only_at = position("use_local_synchronization")  # new_group: if set, only the members call it
        always_async = name in ALWAYS_ASYNC
        local, find_group = self.local, self.find_group
        pack_record, pack_8, pack_4, now = self.pack_record, self.pack_8, self.pack_4, time.monotonic_ns
        wants_spans, add_span = segment.wants_spans, segment.add_span
        counter_at = 32 if is_collective else 48
        direction = 0 if is_collective else SENDS if partner_name == "dst" else RECEIVES
        if direction and tensor_name is None:
            direction |= OBJECTS

        def tail_of(kind, reduction, partner, flags, frame, tensor):
            """What is equal for all calls from the same position: a part of the record, and of the span the name, the
            place and the bytes of an element."""
            word = self.reductions.get(reduction if reduction is not None else self.c10d.ReduceOp.SUM)
            file, function_name, line = self.site_of(frame)
            name_ref = self.text(op)
            tail = self.pack_tail(
                name_ref, self.text(word) if op_at >= 0 and word else 0,
                0 if kind is None else self.text(str(kind).replace("torch.", "")),
                partner if is_collective else -1, -1 if is_collective else partner, file, function_name, line, flags, 0)
            # The code object is kept, because the call's position is known by its id.
            peer = -1 if is_collective or partner is None else partner
            return tail, name_ref, segment.place_of(frame), getattr(tensor, "element_size", int)(), peer, frame.f_code

        index = {parameter: place for place, parameter in enumerate(names)}
        nothing = (None,) * (len(names) + 1)  # index -1 finds the last one
        tails = self.tails.setdefault(name, {})

        def enter(args, kwargs, frame):
            values = args + nothing[len(args):]
            if kwargs:
                values = list(values)
                for key, value in kwargs.items():
                    values[index.get(key, -1)] = value
                values[-1] = None
            if values[members_only_at]:
                return None
            group = values[group_at]
            key = None if group is None else id(group)
            group = self.groups.get(key) or find_group(group, key)
            if group is None:
                return None
            tensor = values[tensor_at]
            if tensor is None:
                count = kind = None
            elif isinstance(tensor, (list, tuple)):
                count = sum(one.numel() for one in tensor)
                tensor = tensor[0] if tensor else None
                kind = None if tensor is None else tensor.dtype
            else:
                count = tensor.numel()
                kind = tensor.dtype
            partner = values[partner_at]
            if partner_name is None:
                partner = -1
            elif partner is not None:
                partner = group.rank_of.get(partner, -1)
            else:
                partner = values[in_group_at]
                if partner is None:
                    partner = 0 if is_collective else -1
            flags = ASYNC if always_async or values[async_at] else 0
            known = segment.is_inside_torch.get(id(frame.f_code))
            if known is None or known[0]:
                frame = segment.caller_of(frame)
            code = id(frame.f_code)
            reduction = values[op_at]
            try:
                tail = tails.get((code, frame.f_lasti, kind, reduction, partner, flags))
            except TypeError:  # a reduction with a factor cannot be hashed
                reduction = NotImplemented
                tail = tails.get((code, frame.f_lasti, kind, reduction, partner, flags))
            if tail is None:
                if len(tails) >= MOST_SITES:
                    tails.clear()
                missed = segment.texts_missed
                tail = tail_of(kind, reduction, partner, flags, frame, tensor)
                if missed == segment.texts_missed:
                    tails[code, frame.f_lasti, kind, reduction, partner, flags] = tail
            memory, at = segment.memory, group.at
            if is_collective:
                group.called = sequence = counter = group.called + 1
                record = at + 64 + (sequence % COLLECTIVES) * CALL_BYTES
            else:
                key = (op, partner)
                sequence = group.with_peer[key] = group.with_peer.get(key, 0) + 1
                record = at + 64 + (COLLECTIVES + group.others % OTHERS) * CALL_BYTES
                group.others = counter = group.others + 1
            begin_ns = now()
            pack_record(memory, record, sequence, begin_ns, 0, count or 0, tail[0])
            pack_8(memory, at + counter_at, counter)
            if flags and is_collective:
                pack_4(memory, at + 28, 1)
            return memory, record, at, sequence, begin_ns, tail, group.number, count or 0

        def leave(noted):
            memory, record, at, sequence, begin_ns, tail, group, count = noted
            end = now()
            pack_8(memory, record + 16, end)
            if is_collective:
                pack_8(memory, at + 40, sequence)
            if memory is segment.memory and wants_spans():
                _, name_ref, place, element, peer, _ = tail
                if is_collective:
                    add_span(COMMUNICATION, name_ref, place, begin_ns, end, -1, group, sequence, count * element)
                elif peer >= 0:
                    add_span(COMMUNICATION, name_ref, place, begin_ns, end, -1, group, sequence | peer << PEER_SHIFT,
                             count * element, direction)
                else:  # recv from any rank
                    add_span(COMMUNICATION, name_ref, place, begin_ns, end, -1, group, 0, count * element)

        return shared["wrapper_of"](function, self.c10d, WRAPPER, {"local": local, "enter": enter, "leave": leave})

    def wrap_destroy(self, function):
        return shared["wrapper_of"](function, self.c10d, WRAPPER_OF_DESTROY, {"destroyed": self.destroyed})


def wrap_functions(module):
    recorder = Recorder(module)
    for calls, is_collective in ((COLLECTIVE_CALLS, True), (POINT_TO_POINT_CALLS, False)):
        for name, (op, tensor, partner) in calls.items():
            function = getattr(module, name, None)
            if function is not None:
                setattr(module, name, recorder.wrap(name, function, op, tensor, partner, is_collective))
    module.destroy_process_group = recorder.wrap_destroy(module.destroy_process_group)
    segment.forgetters.append(recorder.forget)


def watched(spec):
    """`spec` belongs to torch.distributed.distributed_c10d, whose loader has not run yet; None if there is none."""
    return None if spec is None else shared["when_executed"](spec, wrap_functions)
