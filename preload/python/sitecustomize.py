"""Runs before the program, in every Python of an xpurun job. Put on the path by preload/process/python_bootstrap.cpp.

Removes every trace of itself, hooks the functions through which Python reports the end of a process, and then imports
the user's own sitecustomize. The other files (xpurun_*.py) are read on demand, so a healthy program pays only for
this one. For CPython 3.8 and newer. An error in this file only switches the hooks off.
"""
import sys


def _start():
    import os
    import posix

    here = os.path.dirname(__file__)
    # Remove all traces from sys.path, its caches and the environment. A sub-interpreter starts with the path of the
    # main interpreter's start, but without the variable; it gets no hooks.
    while here in sys.path:
        sys.path.remove(here)
    sys.path_importer_cache.pop(here, None)
    state = os.environ.pop("XPURUN_PYTHON", None)
    posix.environ.pop(b"XPURUN_PYTHON", None)
    if state is None:
        return
    before = os.environ.get("PYTHONPATH", "")
    if before == here or before.startswith(here + ":"):
        if state[:1] == "s":
            os.environ["PYTHONPATH"] = before[len(here) + 1:]
            posix.environ[b"PYTHONPATH"] = os.environb[b"PYTHONPATH"]
        else:
            del os.environ["PYTHONPATH"]
            posix.environ.pop(b"PYTHONPATH", None)
    run = os.environ.get("XPURUN_RUN", "").split(":", 3)
    if len(run) == 4 and run[0] == "1":
        for function in (_hook, _hide, _watch_imports):
            function.__code__ = _hidden(function.__code__)
        _hook(os, here, {"socket": run[3], "is_rank": state[1:2] == "r", "frames": set(), "chances": []})


def _hidden(code):
    """The same code under a name that coverage.py, debuggers and profilers do not take for a file of the program."""
    inner = tuple(_hidden(one) if isinstance(one, type(code)) else one for one in code.co_consts)
    return code.replace(co_filename="<xpurun>", co_consts=inner)


def _hook(os, here, settings):
    from _io import open as open_file
    from posix import getpid, getppid
    import _thread
    import atexit

    posix = sys.modules["posix"]
    hide = _hide
    parts = {}
    settings["part"] = lambda name: part(name)
    settings["tell"] = lambda kind, value: tell(kind, value)
    told = []  # id of the last reported exception; a reference would keep its frames alive

    def part(name):
        """The functions of another file in this directory."""
        if name not in parts:
            path = here + "/" + name + ".py"
            with open_file(path, encoding="utf-8") as file:
                source = file.read()
            functions = {"__name__": name, "settings": settings}
            exec(compile(source, "<xpurun " + name + ">", "exec"), functions)
            parts[name] = functions
        return parts[name]

    def tell(kind, value, thread=None):
        if value is None or hasattr(sys, "ps1") or isinstance(value, SystemExit):
            return
        if kind == "raised" and told == [id(value)]:
            return
        insist(lambda: part("xpurun_exceptions")["tell_exception"](kind, value, thread))
        # Afterwards: a signal handler that raises before leaves the report to at_exit().
        if kind == "raised":
            told[:] = [id(value)]

    def insist(report):
        """A signal handler of the program may raise meanwhile, and must not cost the report."""
        for _ in range(3):
            try:
                return report()
            except BaseException:
                pass

    def hook_quitters(tell):
        """exit() and quit() of module `site`, which raise SystemExit."""
        quitter = type(getattr(sys.modules["builtins"], "exit", None))
        if quitter.__module__ == "_sitebuiltins":
            real = quitter.__call__

            def __call__(self, code=None):
                tell("sys_exit", code)
                real(self, code)

            quitter.__call__ = __call__

    first = getpid()
    is_rank = settings["is_rank"]

    def is_forked_rank(caller):
        """A child that a rank forks is no rank: its exit says nothing, and there may be thousands. A launcher may fork
        its ranks and give them their variables afterwards. multiprocessing ends every forked child by os._exit."""
        return (not is_rank and "RANK" in os.environ and
                caller.f_globals.get("__name__") != "multiprocessing.popen_fork")

    def is_process(caller):
        """A process of multiprocessing whose program ends it: multiprocessing ends each process by such a call. A
        child that such a process forks has the same variables and another parent."""
        parent = getattr(sys.modules.get("multiprocessing.process"), "_parent_process", None)
        return (getattr(parent, "_pid", None) == getppid() and
                not str(caller.f_globals.get("__name__")).startswith("multiprocessing."))

    def tell_exit(kind, status):
        caller = sys._getframe(2)

        def report():
            whole = is_forked_rank(caller) or is_process(caller)
            if getpid() != first and not whole:
                return
            if (status is not None and status != 0) or is_rank or whole:
                part("xpurun_exceptions")["tell_exit"](kind, status, caller)

        insist(report)

    default_hook = sys.excepthook
    default_thread_hook = _thread._excepthook
    default_unraisable_hook = sys.unraisablehook
    real_exit = sys.exit
    real_os_exit = os._exit

    frames = settings["frames"]  # code objects of the wrappers in torch.distributed

    def excepthook(exctype, value, traceback, /):
        hide(value, frames)
        tell("raised", value)
        return default_hook(exctype, value, traceback)

    def thread_excepthook(args, /):
        hide(args.exc_value, frames)
        tell("thread", args.exc_value, args.thread)
        return default_thread_hook(args)

    def unraisablehook(unraisable, /):
        tell("unraisable", unraisable.exc_value)
        return default_unraisable_hook(unraisable)

    class Exit:
        """sys.exit: a class whose __init__ is the builtin, so that a SystemExit's traceback has no frame of it."""

        def __new__(cls, *args, **kwargs):
            if len(args) < 2 and not kwargs:
                tell_exit("sys_exit", args[0] if args else None)
            return object.__new__(cls)

        __init__ = real_exit

    def _exit(status):
        # Each page that a forked child touches is copied: as little as possible happens here.
        if is_rank and getpid() != first and not is_process(sys._getframe(1)):
            real_os_exit(status)
        tell_exit("os_exit", status)
        real_os_exit(status)

    def at_exit():
        # For programs whose own hook does not call the previous hook. At a prompt these variables are meaningless.
        tell("raised", getattr(sys, "last_exc", None) or getattr(sys, "last_value", None))
        # A capture ends before the destructors of CUDA's libraries run. Programs that use CUDA have ctypes.
        ctypes = sys.modules.get("ctypes")
        try:
            ctypes.CDLL(None).xpurun_process_ends()
        except Exception:
            pass  # no ctypes, or no preload library

    # Programs compare sys.excepthook with sys.__excepthook__ to detect a replaced hook.
    for new, old in ((excepthook, default_hook), (unraisablehook, default_unraisable_hook),
                     (thread_excepthook, default_thread_hook), (_exit, real_os_exit), (Exit, real_exit)):
        for attribute in ("__name__", "__qualname__", "__doc__", "__module__", "__text_signature__"):
            try:
                setattr(new, attribute, getattr(old, attribute))
            except (AttributeError, TypeError):
                pass
    if sys.__excepthook__ is sys.excepthook:
        sys.__excepthook__ = excepthook
    sys.excepthook = excepthook
    if sys.__unraisablehook__ is sys.unraisablehook:
        sys.__unraisablehook__ = unraisablehook
    sys.unraisablehook = unraisablehook
    # `threading` takes its hook from here on import, and a .pth file may already have imported it.
    _thread._excepthook = thread_excepthook
    threading = sys.modules.get("threading")
    if threading is not None:
        for name in ("excepthook", "__excepthook__"):
            if getattr(threading, name, None) is default_thread_hook:
                setattr(threading, name, thread_excepthook)
    sys.exit = Exit
    hook_quitters(tell_exit)
    os._exit = _exit
    posix._exit = _exit
    atexit.register(at_exit)
    awaited = {"torch": ("xpurun_stages",), "torch.distributed.distributed_c10d": ("xpurun_torch",),
               "torch.distributed._functional_collectives": ("xpurun_torch",), "xpurun": ("xpurun_mark",),
               "jax_plugins.xla_cuda12": ("xpurun_jax",), "jax_plugins.xla_cuda13": ("xpurun_jax",),
               "multiprocessing.process": ("xpurun_multiprocessing",),
               "multiprocessing.popen_fork": ("xpurun_multiprocessing",),
               "concurrent.futures.process": ("xpurun_multiprocessing",),
               "multiprocessing.pool": ("xpurun_swallowed",),
               "concurrent.futures._base": ("xpurun_swallowed",), "logging": ("xpurun_swallowed",),
               "traceback": ("xpurun_swallowed",)}
    settings["awaited"] = awaited
    _watch_imports(part, awaited, settings["chances"])
    functions = os.environ.get("XPURUN_TRACE_PYTHON")
    if functions:
        part("xpurun_functions")["install"](functions, os.environ.get("XPURUN_TRACE_PYTHON_MIN", ""))


def _hide(value, frames):
    """Removes the bootstrap's frames from printed tracebacks."""
    try:
        waiting = [value] if frames else []
        seen = set()
        while waiting:
            value = waiting.pop()
            if value is None or id(value) in seen:
                continue
            seen.add(id(value))
            waiting += [value.__cause__, value.__context__]
            entry = value.__traceback__
            while entry is not None:
                while entry.tb_next is not None and entry.tb_next.tb_frame.f_code in frames:
                    entry.tb_next = entry.tb_next.tb_next
                entry = entry.tb_next
    except Exception:
        pass


def _watch_imports(part, awaited, chances):
    """Lets the parts that await a module hook it on import. The module `xpurun` comes with the parts. `chances`
    are called from time to time."""
    asked = set()  # by thread: the later finders may import too

    class Finder:
        """Asks the later finders for an awaited module. A program may look for a module before it imports it."""

        @staticmethod
        def find_spec(name, path=None, target=None):
            for chance in chances:
                chance()
            parts = awaited.get(name, ())
            if name in sys.modules:  # it is executed again
                parts = [one for one in parts if one == "xpurun_functions"]
            if not parts:
                return None
            thread = sys.modules["_thread"].get_ident()
            if (name, thread) in asked:
                return None
            asked.add((name, thread))
            try:
                for finder in sys.meta_path:
                    find = getattr(finder, "find_spec", None)
                    spec = find(name, path, target) if find is not None else None
                    if spec is not None:
                        break
                else:
                    spec = None
                for one in parts:
                    spec = part(one)["watched"](spec)
                return spec
            except Exception:
                return None
            finally:
                asked.discard((name, thread))

    sys.meta_path.insert(0, Finder)


try:
    _start()
except Exception:
    pass
# The result of `import sitecustomize` without the bootstrap: a module, its own error, or none.
sys.modules.pop("sitecustomize", None)
__import__("sitecustomize")
