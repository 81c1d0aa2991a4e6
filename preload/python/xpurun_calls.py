"""Times the calls of traced functions: by sys.monitoring, or before CPython 3.12 by other code objects
(xpurun_trampoline.py). Both work on the function itself, so calls through any reference count.

A piece of a generator or a coroutine, from a start or resumption to the next suspension, is a call. Calls that are
shorter than --trace-python-min are summed up, about once a second, into one record of the ring. Errors in here are not
recorded and have no other effect.
"""
import sys
import time

settings = globals()["settings"]  # given by sitecustomize.py

shared = settings["part"]("xpurun_segment")
segment = shared["segment"]
FUNCTION, RECORD_AT, SHORT_CALLS = (shared[name] for name in ("FUNCTION", "RECORD_AT", "SHORT_CALLS"))
local = segment.local
now, cpu_now, get_frame = time.monotonic_ns, time.thread_time_ns, sys._getframe
monitoring = getattr(sys, "monitoring", None)

SUM_NS = 1000000000  # longest time of short calls in one record
MOST_DEPTH = 4096  # of calls that are inside of each other and have a span
MOST_THREADS = 256  # with short calls that are not written yet
NO_TOOL, TOO_OLD = "no_tool", "too_old"  # why a function is not traced: model::TraceProblem


class Traced:
    """A function that is traced."""

    __slots__ = ("name", "code", "function", "is_long")

    def __init__(self, name, function, code):
        self.name = name
        self.function = function  # None: only its code was seen
        self.code = code
        self.is_long = True  # whether the latest call became a span


traced_by_code = {}  # by id of the code object, which Traced keeps
shorts = {}  # by thread: its short calls, and the thread's id for the kernel
least_ns = 0  # of a call with a span; set by xpurun_functions.py


def begin_of(traced):
    """The begin and the CPU time, or None if nothing is recorded. CPU time costs 0.5 us; short calls go without."""
    memory = segment.span_memory
    if memory is None:
        if not segment.wants_spans():
            return None
        memory = segment.span_memory
    if not memory[RECORD_AT]:
        return None
    cpu = cpu_now() if traced.is_long else -1
    return traced, memory, cpu, now()


def write(begun, end, frame):
    """The call is over; `frame` is its caller's, or None."""
    traced, memory, cpu, begin = begun
    duration = end - begin
    if memory is not segment.memory:
        return  # forked meanwhile
    if duration < least_ns:
        traced.is_long = False
        add_short(traced, begin, end, duration)
        return
    cpu = cpu_now() - cpu if cpu >= 0 else -1
    traced.is_long = True
    name = segment.texts.get(traced.name) or segment.text(traced.name)
    segment.add_span(FUNCTION, name, 0 if frame is None else segment.place_of(frame), begin, end, cpu)


def add_short(traced, begin, end, duration):
    short = local.state.short
    if short is None:
        short = shorts_of_thread()
    key = id(traced)
    known = short.get(key)
    if known is None:
        short[key] = [traced, 1, duration, begin, end]
        return
    if end - known[3] > SUM_NS:
        put_short(known, 0)
        known[1:4] = 0, 0, begin
    known[1] += 1
    known[2] += duration
    known[4] = end


def put_short(known, thread):
    traced, count, total, begin, end = known
    if count and segment.memory is not None:
        name = segment.texts.get(traced.name) or segment.text(traced.name)
        segment.add_span(FUNCTION, name, 0, begin, end, -1, 0, count, total, SHORT_CALLS, thread)


def shorts_of_thread():
    thread = sys.modules["_thread"]
    ident = thread.get_ident()
    alive = sys._current_frames() if len(shorts) >= MOST_THREADS else None
    for other in list(shorts):
        if other == ident or (alive is not None and other not in alive):
            put_shorts(*shorts.pop(other))  # of a thread that has ended
    local.state.short = short = {}
    shorts[ident] = short, thread.get_native_id()
    return short


def put_shorts_of(traced):
    """Forgets a function that is no longer traced."""
    for short, thread in list(shorts.values()):
        known = short.pop(id(traced), None)
        if known is not None:
            put_short(known, thread)


def put_all_shorts():
    for one in list(shorts.values()):
        put_shorts(*one)


def put_shorts(short, thread):
    for known in list(short.values()):
        put_short(known, thread)
    short.clear()


def started(code, offset):
    try:
        begun = begin_of(traced_by_code[id(code)])
        if begun is not None:
            calls = local.state.calls
            if len(calls) >= MOST_DEPTH:
                del calls[:]
            calls.append(begun)
    except Exception:
        pass


def ended(code, offset, value):
    end = now()
    try:
        calls = local.state.calls
        traced = traced_by_code.get(id(code))
        # Ends that were missed leave calls behind, and begins that were missed leave none: recording was switched
        # meanwhile, or another stack of calls runs in this thread.
        while calls:
            begun = calls.pop()
            if begun[0] is traced:
                write(begun, end, get_frame(1).f_back)
                return
            if not any(call[0] is traced for call in calls):
                calls.append(begun)
                return
    except Exception:
        pass


def thrown(code, offset, value):
    if id(code) in traced_by_code:
        started(code, offset)


def unwound(code, offset, value):
    if id(code) in traced_by_code:
        ended(code, offset, value)


class Monitor:
    """Two tools of sys.monitoring: one for the traced functions, one that sees each other function once, until the
    functions of the main program have been found. The interpreter has no hook for the definition of a function."""

    def __init__(self):
        self.tool = self.search = self.look = None

    @staticmethod
    def take():
        for number in (4, 3, monitoring.OPTIMIZER_ID):  # the others belong to debuggers, coverage and profilers
            if monitoring.get_tool(number) is None:
                monitoring.use_tool_id(number, "xpurun")
                return number
        return None

    @staticmethod
    def release(tool):
        monitoring.set_events(tool, 0)
        for event in (monitoring.events.PY_START, monitoring.events.PY_RESUME, monitoring.events.PY_RETURN,
                      monitoring.events.PY_YIELD, monitoring.events.PY_THROW, monitoring.events.PY_UNWIND):
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)

    def add(self, traced):
        """Why the function cannot be traced, or None."""
        events = monitoring.events
        if self.tool is None:
            self.tool = self.take()
            if self.tool is None:
                return NO_TOOL
            for event, callback in ((events.PY_START, started), (events.PY_RESUME, started), (events.PY_RETURN, ended),
                                    (events.PY_YIELD, ended), (events.PY_THROW, thrown), (events.PY_UNWIND, unwound)):
                monitoring.register_callback(self.tool, event, callback)
            # These two exist for all functions or for none.
            monitoring.set_events(self.tool, events.PY_THROW | events.PY_UNWIND)
        traced_by_code[id(traced.code)] = traced
        monitoring.set_local_events(self.tool, traced.code,
                                    events.PY_START | events.PY_RESUME | events.PY_RETURN | events.PY_YIELD)
        return None

    def await_main(self, look):
        """Calls look(names, code) with the globals and the code of each function that runs for the first time, until
        end_search()."""
        self.look = look
        self.search = self.take()
        if self.search is None:
            return NO_TOOL
        monitoring.register_callback(self.search, monitoring.events.PY_START, self.seen)
        monitoring.set_events(self.search, monitoring.events.PY_START)
        return None

    def seen(self, code, offset):
        try:
            self.look(get_frame(1).f_globals, code)
            if id(code) in traced_by_code:
                started(code, offset)
        except Exception:
            pass
        return monitoring.DISABLE

    def end_search(self):
        if self.search is not None:
            self.release(self.search)
            self.search = None

    def remove(self, traced):
        if traced_by_code.get(id(traced.code)) is not traced:
            return
        del traced_by_code[id(traced.code)]
        monitoring.set_local_events(self.tool, traced.code, 0)
        if not traced_by_code:
            self.release(self.tool)
            self.tool = None

    def remove_all(self):
        for tool in (self.tool, self.search):
            if tool is None:
                continue
            for traced in list(traced_by_code.values()):
                monitoring.set_local_events(tool, traced.code, 0)
            self.release(tool)
        self.tool = self.search = None


class Exchange:
    """Each function gets a code object that calls its old code."""

    def __init__(self):
        self.collected = None

    def add(self, traced):
        trampoline = settings["part"]("xpurun_trampoline")
        if traced.code.co_flags & trampoline["ASYNC_GENERATOR"]:
            return TOO_OLD
        trampoline["exchange"](traced, begin_of, write)
        traced_by_code[id(traced.function.__code__)] = traced
        return None

    def await_main(self, look):
        """Calls look() now and then: nearly every program allocates enough for a collection within milliseconds."""
        import gc

        looking = []  # not empty: a look is under way

        def chance():
            if looking:
                return
            looking.append(True)
            try:
                look(sys.modules["__main__"].__dict__)
            except Exception:
                pass
            finally:
                looking.clear()

        # A look compiles code. CPython 3.11.0 to 3.11.4 raises SystemError ("AST constructor recursion depth mismatch")
        # in a call of compile() for a tree, if a collection during that call compiles too: in our own call, which
        # `looking` prevents, and in ast.parse() of the program.
        def collected(phase, info):
            try:
                if phase == "start" and not get_frame(1).f_code.co_filename.endswith("ast.py"):
                    chance()
            except ValueError:  # no function of Python is running
                pass

        self.collected = collected
        settings["chances"].append(chance)
        gc.callbacks.append(collected)
        return None

    def end_search(self):
        import gc
        settings["chances"].clear()
        if self.collected is not None:
            gc.callbacks.remove(self.collected)
            self.collected = None

    def remove(self, traced):
        """A call that is under way ends as it began, with a span."""
        for key, one in list(traced_by_code.items()):
            if one is traced:
                del traced_by_code[key]
                if id(traced.function.__code__) == key:  # the program may have exchanged it too
                    traced.function.__code__ = traced.code

    def remove_all(self):
        for traced in traced_by_code.values():
            traced.function.__code__ = traced.code


tracer = Exchange() if monitoring is None else Monitor()
