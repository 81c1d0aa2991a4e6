"""Reports exceptions that the program or a library has caught: those that a future of concurrent.futures or a result of
a pool of multiprocessing keeps until somebody asks for it, and those that were logged or printed. They may be why the
job stands afterwards.

sitecustomize.py reads this file when the program imports one of the modules. An exception that is reported costs as
much as one that ends a thread, so that each line of code is reported now and then at most.
"""
import sys
import time

settings = globals()["settings"]  # given by sitecustomize.py

part = settings["part"]

AGAIN_S = 10  # between two reports of one line
MOST_LINES = 50  # of a process
WARNING = 30  # level of logging

told = {}  # when each line was reported last


def tell(kind, value):
    """At most one report of a line within AGAIN_S; never an error of its own."""
    try:
        if not isinstance(value, Exception) or (value.__traceback__ is None and value.__cause__ is None):
            return
        entry = value.__traceback__
        while entry is not None and entry.tb_next is not None:
            entry = entry.tb_next
        # An exception from another process has its traceback as the text of its cause.
        line = (type(value), entry and entry.tb_frame.f_code, entry.tb_lineno if entry else str(value.__cause__))
        now = time.monotonic()
        if now - told.get(line, -AGAIN_S) < AGAIN_S or (line not in told and len(told) >= MOST_LINES):
            return
        told[line] = now
        part("xpurun_exceptions")["tell_exception"](kind, value, None)
    except Exception:
        pass


def hook_futures(module):
    real = module.Future.set_exception

    def set_exception(self, exception):
        # Somebody who waits for the result gets the exception.
        if not self._waiters and not self._condition._waiters:
            tell("kept", exception)
        return real(self, exception)

    named_as(set_exception, real)
    module.Future.set_exception = set_exception


def hook_pool(module):
    for kind in (module.ApplyResult, module.MapResult):
        hook_result(kind)
    real = module.MapResult.__init__

    def __init__(self, *args, **kwargs):
        real(self, *args, **kwargs)
        if self._number_left:
            self._value = [MISSING] * len(self._value)  # until all results are there

    named_as(__init__, real)
    module.MapResult.__init__ = __init__


MISSING = object()
MOST_RANGES = 4
deaths = {}  # of processes of pools: by id of the results of the pool, the last record and the number


def note_death(record, frame):
    """The results that a pool waits for stand in the frame that looks after its processes."""
    while frame is not None and frame.f_code.co_name != "_handle_workers":
        frame = frame.f_back
    if frame is None:
        return
    cache = frame.f_locals["cache"]
    deaths[id(cache)] = [record, deaths.get(id(cache), (None, 0))[1] + 1]
    for result in list(cache.values()):
        tell_lost(result)


def tell_lost(result):
    """Each process had one part of a map(): once as many are left as processes have died, these are lost."""
    record, count = deaths[id(result._cache)]
    left = getattr(result, "_number_left", 0)
    if not 0 < left <= count or not isinstance(result._value, list):
        return
    missing = [i for i, value in enumerate(result._value) if value is MISSING]
    ranges = []
    for i in missing:
        if ranges and ranges[-1][1] == i - 1:
            ranges[-1][1] = i
        else:
            ranges.append([i, i])
    text = ",".join(str(a) if a == b else "%d-%d" % (a, b) for a, b in ranges[:MOST_RANGES])
    if len(ranges) > MOST_RANGES:
        text += ",..."
    exceptions = part("xpurun_exceptions")
    exceptions["send"](exceptions["to_json"]({**record, "lost": text, "items": len(result._value)}).encode())


def hook_result(kind):
    real = kind._set

    def _set(self, i, result):
        if not result[0] and not self._error_callback and not self._event._cond._waiters:
            tell("kept", result[1])
        real(self, i, result)
        if deaths and id(self._cache) in deaths:
            try:
                tell_lost(self)
            except Exception:
                pass

    named_as(_set, real)
    kind._set = _set


def hook_logging(module):
    real = module.Logger.handle

    def handle(self, record):
        if record.exc_info and isinstance(record.exc_info, tuple):
            tell("logged", record.exc_info[1])
        elif record.levelno >= WARNING:
            tell("logged", sys.exc_info()[1])  # a handler that logs the message alone
        return real(self, record)

    named_as(handle, real)
    module.Logger.handle = handle


def hook_traceback(module):
    real = module.print_exception

    def print_exception(*args, **kwargs):
        # From 3.13 on, Python's own hooks print so.
        if sys._getframe(1).f_code.co_name != "_print_exception_bltin":
            tell("logged", next((x for x in (*args[:2], kwargs.get("value")) if isinstance(x, BaseException)), None))
        return real(*args, **kwargs)

    named_as(print_exception, real)
    module.print_exception = print_exception


def named_as(new, old):
    """Handlers of logging look for the first caller outside of its file, so that the frame belongs to that file."""
    code = old.__code__
    new.__code__ = new.__code__.replace(co_filename=code.co_filename, co_name=code.co_name,
                                        co_firstlineno=code.co_firstlineno)
    for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(new, attribute, getattr(old, attribute))
    new.__wrapped__ = old  # inspect.signature()


HOOKS = {"concurrent.futures._base": hook_futures, "multiprocessing.pool": hook_pool,
         "logging": hook_logging, "traceback": hook_traceback}


def watched(spec):
    """`spec` belongs to a module of HOOKS, whose loader has not run yet; None if there is none."""
    return None if spec is None else part("xpurun_watch")["when_executed"](spec, HOOKS[spec.name])
