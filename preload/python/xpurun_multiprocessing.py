"""Reports what multiprocessing keeps to itself: an exception that it catches and prints at the end of a process, and
the death of a process that the program had started with it.

sitecustomize.py reads this file when the program imports `multiprocessing`. No function of multiprocessing is
replaced, so that no traceback and no stack has a frame of xpurun: two attributes are properties that look, and a logger
has a filter.
"""
import sys

settings = globals()["settings"]  # given by sitecustomize.py

tell = settings["tell"]
part = settings["part"]


def hook_process(module):
    """BaseProcess._bootstrap() reads the name of the process while it handles the exception that ended it."""
    base = module.BaseProcess
    real = base.__dict__["name"]
    bootstrap = base._bootstrap.__code__
    get_frame, exc_info = sys._getframe, sys.exc_info

    def name(self):
        if get_frame(1).f_code is bootstrap:
            tell("raised", exc_info()[1])
        return real.fget(self)

    base.name = property(name, real.fset, real.fdel, real.__doc__)


def hook_executor(module):
    """_process_worker() logs the exception of its initializer, and ends with status 0."""
    worker = module._process_worker.__name__

    def told(record):
        if record.funcName == worker and record.exc_info:
            tell("raised", record.exc_info[1])
        return True

    module._base.LOGGER.addFilter(told)


def hook_popen(module):
    """Popen.poll() stores how the process has ended."""
    def returncode(self):
        return self.__dict__.get("returncode")

    def set_returncode(self, code):
        known = self.__dict__.get("returncode")
        self.__dict__["returncode"] = code
        if known is None and code:
            tell_helper(self, code)

    module.Popen.returncode = property(returncode, set_returncode)


def tell_helper(popen, code):
    """How a process of multiprocessing has ended, if not well."""
    try:
        process = sys.modules["multiprocessing.process"]
        children = list(getattr(process, "_children", ()))
        name = next((p._name for p in children if getattr(p, "_popen", None) is popen), "")
        exceptions = part("xpurun_exceptions")
        record = {"schema": "xpurun.helper/1", "pid": popen.pid, "name": exceptions["cut"](name, 200), "code": code}
        exceptions["send"](exceptions["to_json"](record).encode("utf-8", "replace"))
        if "multiprocessing.pool" in sys.modules:
            part("xpurun_swallowed")["note_death"](record, sys._getframe(2))
    except BaseException:
        pass


HOOKS = {"multiprocessing.process": hook_process, "multiprocessing.popen_fork": hook_popen,
         "concurrent.futures.process": hook_executor}


def watched(spec):
    """`spec` belongs to a module of HOOKS, whose loader has not run yet; None if there is none."""
    return None if spec is None else part("xpurun_watch")["when_executed"](spec, HOOKS[spec.name])
