"""Finds the functions that --trace-python or `xpurun ctl trace-python` names, when their module has been executed.
xpurun_calls.py times the calls.

sitecustomize.py reads this file when there are such functions at the start, the first span after ctl otherwise. Errors
in here are not recorded and have no other effect.
"""
import sys

settings = globals()["settings"]  # given by sitecustomize.py

shared = settings["part"]("xpurun_segment")
segment = shared["segment"]
timed = settings["part"]("xpurun_calls")
Traced, traced_by_code, tracer = (timed[name] for name in ("Traced", "traced_by_code", "tracer"))

# The module `types` may be the program's.
Function = type(lambda: None)
SLOTS = type(Function.__globals__), type(Function.__code__)
ME = "xpurun_functions"
MAIN_NAMES = ("__main__", "__mp_main__")  # the latter in the children of multiprocessing's spawn
MOST_WRAPPED = 32
NO_MODULE, NO_FUNCTION, NOT_PYTHON = "no_module", "no_function", "not_python"  # model::TraceProblem


class Target:
    """A name that the user gave."""

    __slots__ = ("name", "module", "path", "may_be_main", "may_be_missing", "is_settled", "traced")

    def __init__(self, name):
        self.may_be_missing = name.startswith("?")
        self.name = name = name.lstrip("?")
        self.module, _, path = name.partition(":")
        self.path = path.split(".")
        self.may_be_main = False
        self.is_settled = False  # traced, or reported as not traceable
        self.traced = []  # the function, and its successors when the module is executed again


targets = []


def is_main(module, names):
    """Whether the user's name of a module means the main program, whose globals are given: `__main__`, the module
    behind python -m, or the file's name."""
    if names.get("__name__") not in MAIN_NAMES:
        return False
    spec = names.get("__spec__")
    # At its end, the interpreter removes __file__.
    file = names.get("__file__") or (getattr(sys, "argv", None) or [""])[0]
    return (module in MAIN_NAMES or module == getattr(spec, "name", None) or
            module == file.rpartition("/")[2].rpartition(".")[0])


def may_be_main(module):
    """The same, before the main program has begun."""
    words = getattr(sys, "argv", None) or [""]
    if module in MAIN_NAMES or words[0] == "-m" or "--multiprocessing-fork" in words:
        return True
    return module == words[0].rpartition("/")[2].rpartition(".")[0]


def waiting_for_main():
    return [one for one in targets if one.may_be_main and not one.is_settled]


def look_in_main(names, code=None):
    """`code`: of the main program, if known, a function that runs for the first time."""
    if names.get("__name__") not in MAIN_NAMES:
        return
    path = None if code is None else code.co_qualname.split(".")
    for target in waiting_for_main():
        if is_main(target.module, names):
            function, problem = find(target.path, names)
            if target.path == path:
                settle(target, None, code)
            elif problem is not NO_FUNCTION:
                settle(target, function, function and function.__code__, problem)
    end_search()


def end_search():
    if not waiting_for_main():
        tracer.end_search()


def member_of(owner, name):
    """Like getattr, but runs no code of the program."""
    own = getattr(owner, "__dict__", {})
    kinds = owner.__mro__ if isinstance(owner, type) else (owner, *type(owner).__mro__)
    for one in kinds:
        own = getattr(one, "__dict__", None)
        if own is not None and name in own:
            return own[name]
    return None


def find(path, names):
    """The Python function at the end of the path, or the reason why there is none."""
    value = names.get(path[0])
    for name in path[1:]:
        if value is None:
            break
        value = member_of(value, name)
    if value is None:
        return None, NO_FUNCTION
    for _ in range(MOST_WRAPPED):
        if isinstance(value, type):
            break
        # static and class methods, bound methods; properties; partial, cached_property; decorated functions
        for name in ("__wrapped__", "__func__", "fget", "func"):
            inner = member_of(value, name)
            if isinstance(inner, SLOTS):
                inner = inner.__get__(value)
            if inner is not None:
                value = inner
                break
        else:
            break
    return (value, None) if isinstance(value, Function) else (None, NOT_PYTHON)


def settle(target, function, code, problem=None):
    target.is_settled = True
    if problem is None and id(code) not in traced_by_code:
        traced = Traced(target.name, function, code)
        problem = tracer.add(traced)
        if problem is None:
            target.traced.append(traced)
    if problem is not None:
        tell(target, problem)


def executed(module, wanted=None):
    """Looks for the functions, or the wanted ones, of a module that has been executed, for the first time or again."""
    name = module.__name__
    for target in wanted or list(targets):
        try:
            path = None
            if target.module == name:
                path = target.path
            elif name.startswith(target.module + "."):  # "package:module.function"
                inner = name[len(target.module) + 1:].split(".")
                if target.path[:len(inner)] == inner:
                    path = target.path[len(inner):]
            if not path:
                continue
            function, problem = find(path, module.__dict__)
            # The path may lead to a module that is imported later.
            is_later = problem is NO_FUNCTION and len(path) > 1 and hasattr(module, "__path__")
            if not is_later:
                settle(target, function, function and function.__code__, problem)
        except Exception:
            pass
    end_search()


def module_names(target):
    """The modules that may define the function: the path may begin with submodules."""
    out = [target.module]
    for part in target.path[:-1]:
        out.append(out[-1] + "." + part)
    return out


def tell(target, reason):
    if target.may_be_missing:
        return
    try:
        parts = settings["part"]("xpurun_exceptions")
        record = {"schema": "xpurun.trace_problem/1", "name": target.name, "problem": reason}
        parts["send"](parts["to_json"](record).encode("utf-8", "replace"))
    except Exception:
        pass


def at_exit():
    try:
        timed["put_all_shorts"]()
        main = sys.modules["__main__"].__dict__
        for target in targets:
            if target.is_settled:
                continue
            if is_main(target.module, main):
                problem = find(target.path, main)[1]  # none if the function was never called
            else:
                problem = NO_FUNCTION if target.module in sys.modules else NO_MODULE
            if problem is not None:
                tell(target, problem)
    except Exception:
        pass


def forget():
    timed["shorts"].clear()
    if not segment.spans_allowed:
        del targets[:]
        tracer.remove_all()
        traced_by_code.clear()


def await_modules(target):
    awaited = settings["awaited"]  # gets the modules whose execution must be announced
    for module in module_names(target):
        if module not in MAIN_NAMES:
            if ME not in awaited.get(module, ()):
                awaited[module] = awaited.get(module, ()) + (ME,)
            if module in sys.modules:
                executed(sys.modules[module], [target])


def begin():
    """Once."""
    if forget not in segment.forgetters:
        import atexit
        segment.forgetters.append(forget)
        atexit.register(at_exit)


def change(names, least_ns):
    """The program runs: from now on these functions are traced, and no others."""
    begin()
    timed["least_ns"] = least_ns
    wanted = {name.lstrip("?"): name for name in names.split(",") if name}
    for target in list(targets):
        if target.name not in wanted:
            targets.remove(target)
            for traced in target.traced:
                timed["put_shorts_of"](traced)
                tracer.remove(traced)
    known = {target.name for target in targets}
    main = sys.modules["__main__"].__dict__
    for target in [Target(given) for name, given in wanted.items() if name not in known]:
        targets.append(target)
        if is_main(target.module, main):
            function, problem = find(target.path, main)
            settle(target, function, function and function.__code__, problem)
        else:
            await_modules(target)
    end_search()


def install(names, least_s):
    """`names` is checked and has commas."""
    timed["least_ns"] = int(float(least_s) * 1e9)
    targets.extend(Target(name) for name in names.split(","))
    for target in targets:
        target.may_be_main = may_be_main(target.module)
        await_modules(target)
    waiting = waiting_for_main()
    problem = tracer.await_main(look_in_main) if waiting else None
    for target in waiting if problem is not None else ():
        target.may_be_main = False
        if target.module in MAIN_NAMES:
            target.is_settled = True
            tell(target, problem)
    begin()


def watched(spec):
    """`spec` belongs to an awaited module, whose loader has not run yet; None if there is none."""
    if spec is None or spec.loader is None or isinstance(spec.loader, type):
        return spec
    return settings["part"]("xpurun_watch")["when_executed"](spec, executed)
