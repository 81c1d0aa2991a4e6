"""Records calls of torch.distributed in memory shared with the supervisor (common/wire/python_segment.h).

sitecustomize.py reads this file when torch.distributed.distributed_c10d is imported. A wrapper replaces each function
of a collective or a point-to-point operation (xpurun_torch_calls.py): it records the call, passes everything through,
records the end, and writes a span. Of nested calls only the outermost counts, because the program made it. Calls that
fail in here are not recorded.
"""
import itertools
import os
import sys
import time

settings = globals()["settings"]  # given by sitecustomize.py

shared = settings["part"]("xpurun_segment")
segment = shared["segment"]
(GROUPS, COLLECTIVES, OTHERS, CALL_BYTES, GROUP_AT, GROUP_BYTES, MOST_SITES, COMMUNICATION, SENDS, RECEIVES, OBJECTS,
 PEER_SHIFT, SPLITS, SPLIT_PEERS, SPLIT_AT, SPLIT_BYTES) = (
    shared[name] for name in ("GROUPS", "COLLECTIVES", "OTHERS", "CALL_BYTES", "GROUP_AT", "GROUP_BYTES", "MOST_SITES",
                              "COMMUNICATION", "SENDS", "RECEIVES", "OBJECTS", "PEER_SHIFT", "SPLITS", "SPLIT_PEERS",
                              "SPLIT_AT", "SPLIT_BYTES"))
tables = settings["part"]("xpurun_torch_calls")
ASYNC, IN_HANDLER, RAISED = 1, 2, 4
FLAGS_AT = 64  # in a call
JOIN_AT = 56  # in the segment: rank, number of ranks, place

REDUCTIONS = {"SUM": "sum", "PRODUCT": "product", "MIN": "min", "MAX": "max", "AVG": "avg"}


WRAPPER = """def NAME(*args, **kwargs):
    is_outermost = not getattr(local, "is_inside", False)
    noted = None
    if is_outermost:
        local.is_inside = True
        try:
            noted = enter(args, kwargs, get_frame(1))
        except BaseException as error:
            if is_users(error):
                local.is_inside = False
                raise
    try:
        return function(*args, **kwargs)
    except BaseException:
        if noted is not None:
            raised(noted)
        raise
    finally:
        if is_outermost:
            local.is_inside = False
        if noted is not None:
            try:
                leave(noted)
            except BaseException as error:
                if is_users(error):
                    raise
"""
# pybind11 takes a function of this name whose first parameter is the object for the method that C++ has called.
WRAPPER_OF_METHOD = WRAPPER.replace("(*args", "(self, *args").replace("enter(args", "enter((self, *args)").replace(
    "function(*args", "function(self, *args")
WRAPPER_OF_WAIT = """def NAME(self, *args, **kwargs):
    begin = None if getattr(local, "is_inside", False) else (cpu_now(), now())
    try:
        return function(self, *args, **kwargs)
    finally:
        if begin is not None:
            try:
                waited(*begin)
            except Exception:
                pass
"""
WRAPPER_THEN = """def NAME(*args, **kwargs):
    try:
        return function(*args, **kwargs)
    finally:
        try:
            then(*args, **kwargs)
        except BaseException as error:
            if is_users(error):
                raise
"""
WRAPPER_AROUND = WRAPPER_THEN.replace("    try:\n        return", """    try:
        first(*args, **kwargs)
    except BaseException as error:
        if is_users(error):
            raise
    try:
        return""", 1)


SHORTEST_WAIT_NS = 100000


class Group:
    """One process group in the segment."""

    __slots__ = ("at", "number", "rank_of", "called", "others", "with_peer", "ends", "tags", "backends")

    def __init__(self, at, number, members, backends):
        self.at = at
        self.number = number
        self.rank_of = {rank: i for i, rank in enumerate(members)}
        self.called = 0
        self.others = 0
        self.with_peer = {}
        self.backends = backends
        # Whether the return of a call is its end, and whether messages have tags: equal for all devices, else None.
        self.ends = self.same(self.ends_on)
        self.tags = self.same(self.tags_on)

    def ends_on(self, device):
        return tables["return_ends"](self.backends.get(device) or self.backends.get(""), device)

    def tags_on(self, device):
        return (self.backends.get(device) or self.backends.get("")) != "nccl"

    def same(self, on):
        values = {on(device) for device in self.backends}
        if "ucc" in self.backends.values():
            return None
        return values.pop() if len(values) == 1 else None


class Recorder:
    def __init__(self, c10d):
        import _struct
        import _thread
        self.c10d = c10d
        self.local = _thread._local()
        self.pack_record = _struct.Struct("=QQQQ48s").pack_into
        self.pack_tail = _struct.Struct("=IIIiiIIIIiII").pack
        self.pack = _struct.pack
        self.pack_8 = segment.pack_8
        self.pack_4 = segment.pack_4
        self.text = segment.text
        self.pack_group = _struct.Struct("=IiIIIIII").pack_into
        self.pack_join = _struct.Struct("=iII").pack_into
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
        self.next_split = itertools.count(1).__next__
        self.split_numbers, self.newest_split = {}, 0
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
        backends = tables["backends_of"](self.c10d, group)
        description = str(getattr(group, "group_desc", "") or "")
        at = GROUP_AT + self.slots * GROUP_BYTES
        self.pack_group(segment.memory, at, 1, rank, len(members), self.text(data),
                        self.text("%016x.%d" % (value, number)), self.text(name),
                        0 if description in ("", "undefined") else self.text(description), 0)
        self.pack_4(segment.memory, at + 56, self.text(tables["backend_text"](backends)))
        self.slots += 1
        self.pack_4(segment.memory, 16, self.slots)
        return Group(at, self.slots, members, backends)

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

    def is_in_handler(self, frame):
        """Whether a function that handles a signal has made the call. Looked at once for each line of the program."""
        signal = sys.modules.get("signal")
        handlers = set()
        for number in signal.valid_signals() if signal is not None else ():
            code = getattr(signal.getsignal(number), "__code__", None)
            if code is not None:
                handlers.add(code)
        while handlers and frame is not None:
            if frame.f_code in handlers:
                return True
            frame = frame.f_back
        return False

    def put_splits(self, sent, received):
        """Sizes by rank of the group: the number of their place, or 0. Equal sizes have one place: those of a call long
        ago are still there if the program has used few different ones."""
        if not 0 < len(sent) <= SPLIT_PEERS or len(received) != len(sent):
            return 0
        key = (*sent, *received)
        known = self.split_numbers.get(key, 0)
        if known and self.newest_split - known < SPLITS - 1:
            return known
        if len(self.split_numbers) >= 2 * SPLITS:
            self.split_numbers.clear()
        number = self.newest_split = self.split_numbers[key] = self.next_split() & 0xFFFFFFFF
        at = SPLIT_AT + number % SPLITS * SPLIT_BYTES
        self.pack_4(segment.memory, at, 0)
        self.pack_4(segment.memory, at + 4, len(sent))
        for start, sizes in ((at + 8, sent), (at + 8 + 4 * SPLIT_PEERS, received)):
            data = self.pack("=%dI" % len(sizes), *sizes)
            segment.memory[start:start + len(data)] = data
        self.pack_4(segment.memory, at, number)
        return number

    def wrap(self, name, function, call, template=WRAPPER, group_of=None):
        """`call` is one of xpurun_torch_calls.py. `group_of` makes a process group of the argument."""
        names = call.names
        if names is None:
            original = function
            while hasattr(original, "__wrapped__"):
                original = original.__wrapped__
            code = original.__code__
            names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]

        def position(parameter):
            return names.index(parameter) if parameter in names else -1

        op, is_collective, partner_is_global = call.op, call.is_collective, call.partner_is_global
        counts = call.counts
        tensor_at, partner_at, group_at = position(call.tensor), position(call.partner), position(call.group)
        if tensor_at < 0 and call.tensor is not None:
            # The name differs between releases of torch; the position does not.
            tensor_at = call.tensor_position
        op_at = max(position("op"), position("reduceOp"))
        async_at = position("async_op")
        has_partner = call.partner is not None
        in_group_at = position("group_" + call.partner) if has_partner else -1
        members_only_at = position("use_local_synchronization")  # new_group: if set, only the members call it
        tag_at = -1 if is_collective else position("tag")
        never_ends = call.is_async
        local, find_group = self.local, self.find_group
        pack_record, pack_8, pack_4, now = self.pack_record, self.pack_8, self.pack_4, time.monotonic_ns
        wants_spans, add_span = segment.wants_spans, segment.add_span
        counter_at = 32 if is_collective else 48
        traced_tensors = tables["TRACED_TENSORS"]
        ranks_of, splits_of = tables["RANKS_OF"].get(op), tables["SPLITS_OF"].get(op)
        text, thread_name, put_splits = self.text, segment.thread_name, self.put_splits
        state_of = segment.local
        direction = 0 if is_collective else SENDS if call.partner == "dst" else RECEIVES
        if direction and call.tensor is None:
            direction |= OBJECTS

        def tail_of(kind, reduction, partner, flags, frame, tensor, tag, thread, detail):
            """What is equal for all calls from the same position: a part of the record, and of the span the name, the
            place and the bytes of an element."""
            if isinstance(reduction, str):
                word = reduction.lower()
            else:
                word = self.reductions.get(reduction if reduction is not None else self.c10d.ReduceOp.SUM)
            file, function_name, line = self.site_of(frame)
            name_ref = self.text(op)
            tail = self.pack_tail(
                name_ref, self.text(word) if op_at >= 0 and word else 0,
                0 if kind is None else self.text(str(kind).replace("torch.", "")),
                partner if is_collective else -1, -1 if is_collective else partner, file, function_name, line,
                flags | (IN_HANDLER if self.is_in_handler(frame) else 0), tag, thread, detail)
            # The code object is kept, because the call's position is known by its id.
            peer = -1 if is_collective or partner is None else partner
            return tail, name_ref, segment.place_of(frame), getattr(tensor, "element_size", int)(), peer, frame.f_code

        index = {parameter: place for place, parameter in enumerate(names)}
        if call.names is not None:
            index.update((other, index[known]) for other, known in tables["OTHER_KEYWORDS"].items()
                         if known in index and other not in index)
            index.setdefault("opts", index.get("root", len(names) - 1))
        nothing = (None,) * (len(names) + 1)  # index -1 finds the last one
        tails = self.tails.setdefault((template is WRAPPER, group_of is None, name), {})

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
            if group_of is not None:
                if type(values[tensor_at]).__name__ in traced_tensors:
                    return None
                group = group_of(group)
                if group is None:
                    return None
            key = None if group is None else id(group)
            group = self.groups.get(key) or find_group(group, key)
            if group is None:
                return None
            tensor = values[tensor_at]
            if tensor is None:
                count = kind = None
            elif counts is not None:
                count, kind, tensor = len(tensor), counts, None
            elif isinstance(tensor, (list, tuple)):
                count = sum(one.numel() for one in tensor)
                tensor = tensor[0] if tensor else None
                kind = None if tensor is None else tensor.dtype
            else:
                count = tensor.numel()
                kind = tensor.dtype
            partner = values[partner_at]
            if not has_partner:
                partner = -1
            elif not partner_is_global:
                partner = getattr(partner, "rootRank", partner)
                if partner is None:
                    partner = 0 if is_collective else -1
            elif partner is not None:
                partner = group.rank_of.get(partner, -1)
            else:
                partner = values[in_group_at]
                if partner is None:
                    partner = 0 if is_collective else -1
            ends = group.ends
            if ends is None:
                ends = tensor is not None and group.ends_on(tensor.device.type)
            flags = ASYNC if never_ends or values[async_at] or not ends else 0
            tag = values[tag_at] or 0
            if tag and not (group.tags_on(tensor.device.type) if group.tags is None else group.tags):
                tag = 0
            known = segment.is_inside_torch.get(id(frame.f_code))
            if known is None or known[0]:
                frame = segment.caller_of(frame)
            code = id(frame.f_code)
            thread = state_of.state.name or thread_name()
            detail = 0
            if ranks_of is not None:
                detail = text(ranks_of(names, values))
            reduction = values[op_at]
            if call.names is not None:
                reduction = getattr(reduction, "reduceOp", reduction)
            try:
                tail = tails.get((code, frame.f_lasti, kind, reduction, partner, flags, tag, thread, detail))
            except TypeError:  # a reduction with a factor cannot be hashed
                reduction = NotImplemented
                tail = tails.get((code, frame.f_lasti, kind, reduction, partner, flags, tag, thread, detail))
            if tail is None:
                if len(tails) >= MOST_SITES:
                    tails.clear()
                missed = segment.texts_missed
                tail = tail_of(kind, reduction, partner, flags, frame, tensor, tag, thread, detail)
                if missed == segment.texts_missed:
                    tails[code, frame.f_lasti, kind, reduction, partner, flags, tag, thread, detail] = tail
            memory, at = segment.memory, group.at
            if is_collective:
                group.called = sequence = counter = group.called + 1
                record = at + 64 + (sequence % COLLECTIVES) * CALL_BYTES
            else:
                key = (op, partner, tag)
                sequence = group.with_peer[key] = group.with_peer.get(key, 0) + 1
                record = at + 64 + (COLLECTIVES + group.others % OTHERS) * CALL_BYTES
                group.others = counter = group.others + 1
            packed = tail[0]
            if splits_of is not None:
                sizes = splits_of(names, values, count, len(group.rank_of))
                if sizes is not None:
                    packed = packed[:-4] + put_splits(*sizes).to_bytes(4, sys.byteorder)
            begin_ns = now()
            pack_record(memory, record, sequence, begin_ns, 0, count or 0, packed)
            if flags and is_collective:
                pack_4(memory, at + 28, 1)
            pack_8(memory, at + counter_at, counter)
            if tag:
                sequence = 0  # messages with other tags are numbered separately
            return memory, record, at, sequence, begin_ns, tail, group.number, count or 0

        def raised(noted):
            try:
                noted[0][noted[1] + FLAGS_AT] |= RAISED
            except Exception:
                pass

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
                elif peer >= 0 and sequence:
                    add_span(COMMUNICATION, name_ref, place, begin_ns, end, -1, group, sequence | peer << PEER_SHIFT,
                             count * element, direction)
                else:  # a tag, or recv from any rank
                    add_span(COMMUNICATION, name_ref, place, begin_ns, end, -1, group, 0, count * element)

        return shared["wrapper_of"](function, self.c10d, template, {"local": local, "enter": enter, "leave": leave,
                                                                          "raised": raised})

    def wrap_wait(self):
        """Calls that have returned, such as irecv(), are waited for here. Each long wait is a span without a group."""
        work = getattr(self.c10d, "Work", None)
        function = getattr(work, "wait", None)
        text = segment.text

        get_frame, now, cpu_now = sys._getframe, time.monotonic_ns, time.thread_time_ns

        def waited(cpu, begin_ns):
            end = now()
            if end - begin_ns >= SHORTEST_WAIT_NS and segment.wants_spans():
                segment.add_span(COMMUNICATION, text("Work.wait"), segment.place_of(get_frame(2)), begin_ns, end,
                                 cpu_now() - cpu)

        if function is not None:
            work.wait = shared["wrapper_of"](function, self.c10d, WRAPPER_OF_WAIT,
                                             {"local": self.local, "now": now, "cpu_now": cpu_now, "waited": waited})

    def wrap_destroy(self, function):
        return shared["wrapper_of"](function, self.c10d, WRAPPER_THEN, {"then": self.destroyed})


    def joins(self, backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, *args, **kwargs):
        """As which of how many ranks this process waits for the others, and where. Those that never come are known by
        this."""
        get = os.environ.get
        place = None if init_method is None else str(init_method)
        if store is not None:
            place = ""
        elif place is None or place.startswith("env://"):
            place = "%s:%s" % (get("MASTER_ADDR", ""), get("MASTER_PORT", ""))
        place, _, query = place.partition("?")
        given = dict(one.partition("=")[::2] for one in query.split("&"))
        rank = int(given.get("rank", rank))
        world_size = int(given.get("world_size", world_size))
        rank = int(get("RANK", -1)) if rank < 0 else rank
        world_size = int(get("WORLD_SIZE", 0)) if world_size < 0 else world_size
        if segment.request():
            self.pack_join(segment.memory, JOIN_AT, rank, world_size, self.text(place.rpartition("//")[2]))

    def joined(self, *args, **kwargs):
        """The default group is the surest sign of this process's rank."""
        if segment.request():
            self.add_groups()
            self.pack_4(segment.memory, JOIN_AT + 4, 0)

    def wrap_init(self, function):
        return shared["wrapper_of"](function, self.c10d, WRAPPER_AROUND, {"first": self.joins, "then": self.joined})

    def wrap_methods(self):
        """What a program calls on a process group itself. torch's own functions call the same methods; of nested calls
        only the outermost counts."""
        group_class = getattr(self.c10d, "ProcessGroup", None)
        for name, call in tables["METHODS"].items():
            function = getattr(group_class, name, None)
            if function is not None:
                setattr(group_class, name, self.wrap(name, function, call, WRAPPER_OF_METHOD))

    def wrap_functional(self, module):
        name_of = getattr(module, "_resolve_group_name", None)
        find = getattr(self.c10d, "_resolve_process_group", None)
        if name_of is None or find is None:  # before torch 2.2 a group has no name
            return

        def group_of(group):
            if isinstance(group, list):
                return None  # deprecated; torch warns of it
            return group if isinstance(group, self.c10d.ProcessGroup) else find(name_of(group))

        for name, call in tables["FUNCTIONAL"].items():
            function = getattr(module, name, None)
            if function is not None:
                wrapper = self.wrap(name, function, call, group_of=group_of)
                wrapper._torchdynamo_inline = function  # torch.compile traces this instead
                setattr(module, name, wrapper)


recorders = []  # one, once distributed_c10d has been executed
waiting = []  # modules of functional collectives that were executed before


def wrap_functions(module):
    if not module.__name__.endswith("distributed_c10d"):
        for recorder in recorders[-1:]:
            recorder.wrap_functional(module)
        if not recorders:
            waiting.append(module)
        return
    recorder = Recorder(module)
    for name, call in tables["PUBLIC"].items():
        function = getattr(module, name, None)
        if function is not None:
            setattr(module, name, recorder.wrap(name, function, call))
    if hasattr(module, "init_process_group"):
        module.init_process_group = recorder.wrap_init(module.init_process_group)
    module.destroy_process_group = recorder.wrap_destroy(module.destroy_process_group)
    segment.forgetters.append(recorder.forget)
    recorders.append(recorder)
    while waiting:
        recorder.wrap_functional(waiting.pop())
    recorder.wrap_methods()
    recorder.wrap_wait()


def watched(spec):
    """`spec` belongs to torch.distributed.distributed_c10d or to the functional collectives, whose loader has not run
    yet; None if there is none."""
    return None if spec is None else settings["part"]("xpurun_watch")["when_executed"](spec, wrap_functions)
