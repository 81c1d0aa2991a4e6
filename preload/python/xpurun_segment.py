"""The memory shared with the supervisor (common/wire/python_segment.h): the request, texts, places, and the ring of
spans. xpurun_torch.py and xpurun_stages.py write into the one segment of the process.

The segment is requested at the first collective or span. A forked child begins without a segment, because the parent
owns the memory. A span is written whole, then its number, which publishes the span; a reader that is late sees from
the numbers how many spans it lost.
"""
import _struct
import _thread
import itertools
import os
import sys
import time

settings = globals()["settings"]  # given by sitecustomize.py

MAGIC = 0x4E525058
VERSION = 1
ATTACH_NOTICE = 5
IS_PYTHON = 1
PATIENCE_S = 3

SEGMENT_MAGIC = 0x315950504E525058
SEGMENT_VERSION = 9
GROUPS, COLLECTIVES, OTHERS = 64, 256, 64
CALL_BYTES = 80
GROUP_AT, GROUP_BYTES = 128, 64 + (COLLECTIVES + OTHERS) * CALL_BYTES
TEXT_AT, TEXT_BYTES = GROUP_AT + GROUPS * GROUP_BYTES, 256 * 1024
SPANS, SPAN_BYTES = 4096, 64
SPAN_AT = TEXT_AT + TEXT_BYTES
TRACED_TEXT_AT, TRACED_BYTES = SPAN_AT + SPANS * SPAN_BYTES, 16 * 1024
SPLITS, SPLIT_PEERS = 64, 128  # calls with sizes per peer, and their peers
SPLIT_AT, SPLIT_BYTES = TRACED_TEXT_AT + TRACED_BYTES, 8 + 8 * SPLIT_PEERS
SEGMENT_BYTES = SPLIT_AT + SPLITS * SPLIT_BYTES
RECORD_AT = 32  # whether the supervisor wants spans
GPU_MEMORY_AT = 72  # time, and bytes that are allocated, reserved, allocated at most, and in all
MEMORY_AT = 112  # the latest request for a look at the memory: number, steps, why and whether Python's objects too
TRACED_AT = 36  # change of the list of traced functions; its bytes, the change that was followed, least duration
MOST_SITES = 4096
FARTHEST_CALLER = 40  # frames; FSDP calls from hooks of hooks below backward()
LIBRARY = getattr(os, "__file__", "\0os.py")[:-len("os.py")]  # Python's own modules
MOST_TEXT = 4096
SHORT_CALLS, INFERRED, SENDS, RECEIVES, OBJECTS = 1, 2, 4, 8, 16  # flags of a span
PEER_SHIFT = 40  # of the peer's rank in a span's number

DATA, FORWARD, BACKWARD, OPTIMIZER, COMMUNICATION, CHECKPOINT, EVALUATION, GARBAGE, FUNCTION, MARK = range(1, 11)


def receive_segment():
    """The memory, or None."""
    import _socket
    import mmap
    import posix
    header = b"".join((
        MAGIC.to_bytes(4, sys.byteorder), VERSION.to_bytes(2, sys.byteorder), ATTACH_NOTICE.to_bytes(2, sys.byteorder),
        IS_PYTHON.to_bytes(4, sys.byteorder), posix.getpid().to_bytes(4, sys.byteorder), bytes(4 * 4), bytes(2 * 8),
        time.monotonic_ns().to_bytes(8, sys.byteorder), bytes(8)))
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(PATIENCE_S)
        connection.connect(settings["socket"])
        connection.send(header)
        _, extra, _, _ = connection.recvmsg(1, _socket.CMSG_SPACE(4))
    finally:
        connection.close()
    if not extra:
        return None
    descriptor = int.from_bytes(extra[0][2][:4], sys.byteorder)
    try:
        memory = mmap.mmap(descriptor, SEGMENT_BYTES)
    finally:
        posix.close(descriptor)
    if memory[:12] != SEGMENT_MAGIC.to_bytes(8, sys.byteorder) + SEGMENT_VERSION.to_bytes(4, sys.byteorder):
        return None
    memory[28:32] = posix.getpid().to_bytes(4, sys.byteorder)
    return memory


class State:
    """What is known of one thread."""

    __slots__ = ("active", "thread", "name", "since", "optimizer", "calls", "short")

    def __init__(self):
        self.active = 0  # bits of the stages that the thread is in
        self.thread = 0  # its id
        self.name = 0  # its name, as a text
        self.since = None  # stage, time, CPU time and place of the latest end of a stage; None: nothing to infer
        self.optimizer = None  # the step that the thread is in
        self.calls = []  # of traced functions that the thread is in
        self.short = None  # short calls of such functions that are not written yet


class Local(_thread._local):
    def __init__(self):
        self.state = State()


class Segment:
    def __init__(self):
        self.pack_4 = _struct.Struct("=I").pack_into
        self.pack_8 = _struct.Struct("=Q").pack_into
        self.pack_span = _struct.Struct("=QQQqQQIIIHBB").pack_into
        self.unpack_traced = _struct.Struct("=II4xQ").unpack_from
        self.lock = _thread.allocate_lock()
        self.traced_lock = _thread.allocate_lock()
        self.package = "\0"  # directory of torch, with a slash
        self.forgetters = []
        self.step_ended = self.find_step_ended
        self.spans_allowed = True
        self.gpu_memory_ns = 0  # when it was looked at
        self.local = Local()
        self.forget()

    def forget(self):
        self.memory = None
        self.span_memory = None  # the same, if the process has spans
        self.is_off = False
        self.texts = {}
        self.text_bytes = 0
        self.traced_seen = 0  # lowest byte of the change of the list of traced functions
        self.texts_missed = 0  # texts that were not written because another thread was writing one
        # Code objects are found by their id, because their hash takes a microsecond. The values keep them.
        self.places = {}  # place and code object, by id and instruction
        self.is_inside_torch = {}  # whether, and code object, by id
        self.local.state = State()
        self.next_span = itertools.count(1).__next__  # numbers stay unique without a lock

    def forget_after_fork(self):
        # A process that a rank forks is a worker of that rank. Other forked processes may be ranks.
        self.spans_allowed = self.spans_allowed and not settings["is_rank"]
        self.lock = _thread.allocate_lock()
        self.traced_lock = _thread.allocate_lock()
        self.forget()
        for forget in self.forgetters:
            forget()

    def request(self):
        """Whether there is memory. A refusal, or an error, is final."""
        if self.memory is None and not self.is_off:
            self.is_off = True
            self.memory = receive_segment()
            self.span_memory = self.memory if self.spans_allowed else None
        return self.memory is not None

    def wants_spans(self):
        memory = self.span_memory
        if memory is None:
            if not self.spans_allowed or self.is_off or not self.request():
                return False
            memory = self.span_memory
        return memory[RECORD_AT] != 0

    def text(self, value):
        """Puts the text, or bytes, into the segment once. Returns 0 if there is no room."""
        ref = self.texts.get(value)
        if ref is None:
            data = value if isinstance(value, bytes) else value.encode("utf-8", "replace")[:MOST_TEXT]
            # Never waits: garbage collection and signal handlers interrupt the thread that holds the lock.
            if not self.lock.acquire(False):
                self.texts_missed += 1
                return 0
            try:
                ref = self.text_bytes or 4
                end = ref + 4 + len(data)
                if end > TEXT_BYTES:
                    return 0
                self.pack_4(self.memory, TEXT_AT + ref, len(data))
                self.memory[TEXT_AT + ref + 4:TEXT_AT + end] = data
                self.text_bytes = (end + 3) & ~3
                self.pack_4(self.memory, 20, self.text_bytes)
                self.texts[value] = ref
            finally:
                self.lock.release()
        return ref

    def thread_name(self):
        """Of the calling thread, as a text. A thread that Python has not started has no name."""
        state = self.local.state
        if not state.name:
            threading = sys.modules.get("threading")
            known = threading._active.get(_thread.get_ident()) if threading is not None else None
            state.name = self.text(known.name) if known is not None else 0
        return state.name

    def caller_of(self, frame):
        """The nearest caller outside of torch, else the nearest caller."""
        nearest = frame
        for _ in range(FARTHEST_CALLER):
            if frame is None:
                break
            code = frame.f_code
            known = self.is_inside_torch.get(id(code))
            if known is None:
                if len(self.is_inside_torch) >= MOST_SITES:
                    self.is_inside_torch.clear()
                known = self.is_inside_torch[id(code)] = code.co_filename.startswith(self.package), code
            if not known[0]:
                return frame
            frame = frame.f_back
        return nearest

    def place_in_program(self, frame):
        """As place_of(), of the nearest caller outside of installed packages and of Python's own, if one is near."""
        near = frame
        for _ in range(12):
            if near is None:
                break
            file = near.f_code.co_filename
            if not ("-packages/" in file or file.startswith(LIBRARY) or file.startswith(self.package)):
                return self.place_of(near)
            near = near.f_back
        return self.place_of(frame)

    def place_of(self, frame):
        """The text "train.py:40 (train)" for the nearest caller outside of torch."""
        places = self.places
        key = id(frame.f_code), frame.f_lasti
        known = places.get(key)
        if known is not None:
            return known[0]
        # The place of a frame of torch depends on its callers.
        frame = self.caller_of(frame)
        code = frame.f_code
        key = id(code), frame.f_lasti
        known = places.get(key)
        if known is not None:
            return known[0]
        missed = self.texts_missed
        place = self.text("%s:%d (%s)" % (code.co_filename.rpartition("/")[2], frame.f_lineno or 0,
                                          getattr(code, "co_qualname", None) or code.co_name))
        if missed == self.texts_missed and not code.co_filename.startswith(self.package):
            if len(places) >= MOST_SITES:
                places.clear()
            places[key] = place, code
        return place

    def add_span(self, stage, name, place, begin, end, cpu=-1, group=0, sequence=0, size=0, flags=0, thread=0):
        """name and place are results of text() and place_of(); group is the number of its slot, plus 1; thread 0: this
        one."""
        if not thread:
            state = self.local.state
            thread = state.thread
            if not thread:
                thread = state.thread = _thread.get_native_id()
        number = self.next_span()
        at = SPAN_AT + (number - 1) % SPANS * SPAN_BYTES
        memory = self.memory
        self.pack_span(memory, at, 0, begin, end - begin, cpu, sequence, size, name, place, thread, group, stage, flags)
        self.pack_8(memory, at, number)
        if memory[TRACED_AT] != self.traced_seen:
            self.follow_traced()


    def find_step_ended(self):
        """Tells the preload library that a step ended (step_anchor.h). The first call finds its function."""
        ctypes = sys.modules.get("ctypes")
        try:
            self.step_ended = ctypes.PyDLL(None).xpurun_step_ended
            self.step_ended.restype = None
        except Exception:  # a program without ctypes; an older library
            self.step_ended = int
        self.step_ended()

    def follow_traced(self):
        """The list of traced functions has changed. Spans end often enough in a rank that trains, so that nothing else
        needs to look."""
        if not self.traced_lock.acquire(False):
            return  # another thread does it, or this one, which writes a span meanwhile
        try:
            memory = self.memory
            change, size, least_ns = self.unpack_traced(memory, TRACED_AT)
            if change == 0 or size > TRACED_BYTES:
                return  # it is being changed
            names = memory[TRACED_TEXT_AT:TRACED_TEXT_AT + size]
            if self.unpack_traced(memory, TRACED_AT)[0] != change:
                return
            self.traced_seen = change.to_bytes(4, sys.byteorder)[0]
            settings["part"]("xpurun_functions")["change"](names.decode("utf-8", "replace"), least_ns)
            self.pack_4(memory, TRACED_AT + 8, change)
        except Exception:
            pass
        finally:
            self.traced_lock.release()


segment = Segment()
sys.modules["posix"].register_at_fork(after_in_child=segment.forget_after_fork)


def is_users(error):
    """Whether a signal handler of the program has raised this while a hook ran, as opposed to an error of the hook."""
    if not isinstance(error, Exception):
        return True
    import _signal
    codes = set()
    for number in range(1, _signal.NSIG):
        try:
            handler = _signal.getsignal(number)
        except ValueError:  # a gap
            continue
        handler = getattr(handler, "func", handler)  # of functools.partial
        call = getattr(type(handler), "__call__", None)
        codes.add(getattr(handler, "__code__", None) or getattr(call, "__code__", None))
    codes.discard(None)
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code not in codes:
        traceback = traceback.tb_next
    return traceback is not None


def wrapper_of(function, module, source, names):
    """A function in place of a function of torch. Its code has torch's file name and the line of the original, so that
    torch.compile and readers of stacks take it for a part of torch. `source` defines NAME."""
    original = function
    while hasattr(original, "__wrapped__"):
        original = original.__wrapped__
    code = getattr(original, "__code__", None)  # a method of a class in C++ has none
    file, line = (module.__file__, 1) if code is None else (code.co_filename, code.co_firstlineno)
    line = max(1, line - source[:source.index("return function")].count("\n"))
    scope = {"function": function, "get_frame": sys._getframe, "__name__": module.__name__, "is_users": is_users,
             **names}
    text = "\n" * (line - 1) + source.replace("NAME", original.__name__)
    exec(compile(text, file, "exec"), scope)
    wrapper = scope[original.__name__]
    settings["frames"].add(wrapper.__code__)
    return sys.modules["functools"].wraps(function)(wrapper)
