"""Before CPython 3.12: gives a function another code object, which calls the old one and reports begin and end.

The function stays the same object, so that every reference to it is traced and programs may pickle it. The new code has
the old one's parameters, file and first line, so that inspect sees no difference.
"""
import sys
import time

settings = globals()["settings"]  # given by sitecustomize.py

now, get_frame = time.monotonic_ns, sys._getframe
Function, Code = type(lambda: None), type((lambda: None).__code__)  # the module `types` may be the program's
VARARGS, VARKEYWORDS, GENERATOR, COROUTINE, ITERABLE, ASYNC_GENERATOR = 4, 8, 32, 128, 256, 512  # co_flags
AST_ONLY = 0x400  # compile() returns the tree
NAME = "xpurun_function"

# The outer function makes the inner one's free variables those of the original. Constants of the inner code that have
# the name of an object become the object.
CALL = """def xpurun_outer(FREE):
    def xpurun_function(PARAMETERS):
        xpurun_begun = None
        xpurun_call = "xpurun call"
        xpurun_enter = "xpurun enter"
        xpurun_leave = "xpurun leave"
        try:
            xpurun_begun = xpurun_enter()
        except Exception:
            pass
        try:
            return xpurun_call(ARGUMENTS)
        finally:
            if xpurun_begun is not None:
                xpurun_leave(xpurun_begun)
        USES
"""
STEPS = """def xpurun_outer(FREE):
    DEFINE xpurun_function(PARAMETERS):
        xpurun_call = "xpurun call"
        xpurun_steps = "xpurun steps"
        xpurun_inner = xpurun_call(ARGUMENTS)
        return (DELEGATE (xpurun_steps(xpurun_inner) if xpurun_steps else xpurun_inner))
        USES
"""


def hook_of(function, *args):
    """A partial that another process may get from cloudpickle. There it is the number 0, without which the code does
    the same."""
    from _functools import partial

    class Hook(partial):
        def __reduce__(self):
            return int, ()

    return Hook(function, *args)


def steps_of(traced, begin_of, write):
    """A class whose objects stand between a generator, or a coroutine, and its consumer. Each step is a call."""

    def enter():
        try:
            return begin_of(traced)
        except Exception:
            return None

    def leave(begun):
        end = now()
        try:
            if begun is not None:
                write(begun, end, get_frame(2).f_back)  # behind the step and the function
        except Exception:
            pass

    class Steps:
        __slots__ = ("inner",)

        def __init__(self, inner):
            self.inner = inner

        def __iter__(self):
            return self

        __await__ = __iter__

        def __next__(self):
            begun = enter()
            try:
                return self.inner.send(None)
            finally:
                leave(begun)

        def send(self, value):
            begun = enter()
            try:
                return self.inner.send(value)
            finally:
                leave(begun)

        def throw(self, *error):
            begun = enter()
            try:
                return self.inner.throw(*error)
            finally:
                leave(begun)

        def close(self):
            self.inner.close()

    settings["frames"].update(step.__code__ for step in (Steps.__next__, Steps.send, Steps.throw, Steps.close))
    return Steps


def parameters_of(code):
    """What stands between the parentheses of a definition, and of a call that passes everything on."""
    names = code.co_varnames
    count, keywords = code.co_argcount, code.co_kwonlyargcount
    parameters, arguments = list(names[:count]), list(names[:count])
    if code.co_posonlyargcount:
        parameters.insert(code.co_posonlyargcount, "/")
    at = count + keywords
    if code.co_flags & VARARGS:
        parameters.append("*" + names[at])
        arguments.append("*" + names[at])
        at += 1
    elif keywords:
        parameters.append("*")
    for name in names[count:count + keywords]:
        parameters.append(name)
        arguments.append("%s=%s" % (name, name))
    if code.co_flags & VARKEYWORDS:
        parameters.append("**" + names[at])
        arguments.append("**" + names[at])
    return ", ".join(parameters), ", ".join(arguments)


def move(node, line):
    """Puts the whole tree on one line."""
    if hasattr(node, "lineno"):
        node.lineno = node.end_lineno = line
    for name in node._fields:
        value = getattr(node, name, None)
        for child in value if isinstance(value, list) else (value,):
            if hasattr(child, "_fields"):
                move(child, line)


def inner_code(code):
    found = next(one for one in code.co_consts if isinstance(one, Code))
    return found if found.co_name == NAME else inner_code(found)


def new_code(code, objects):
    if "steps" in objects:
        is_async = code.co_flags & COROUTINE
        source = STEPS.replace("DEFINE", "async def" if is_async else "def")
        source = source.replace("DELEGATE", "await" if is_async else "yield from")
    else:
        source = CALL
    parameters, arguments = parameters_of(code)
    free = ", ".join(code.co_freevars)
    for word, text in (("PARAMETERS", parameters), ("ARGUMENTS", arguments), ("FREE", free),
                       ("USES", "(%s,)" % free if free else "pass")):
        source = source.replace(word, text)
    tree = compile(source, code.co_filename, "exec", AST_ONLY)
    move(tree, code.co_firstlineno)
    new = inner_code(compile(tree, code.co_filename, "exec"))
    constants = {"xpurun " + name: value for name, value in objects.items()}
    changes = {"co_consts": tuple(constants.get(one, one) if isinstance(one, str) else one for one in new.co_consts),
               "co_name": code.co_name, "co_firstlineno": code.co_firstlineno,
               "co_flags": new.co_flags | code.co_flags & ITERABLE}
    if hasattr(code, "co_qualname"):
        changes["co_qualname"] = code.co_qualname
    return new.replace(**changes)


def exchange(traced, begin_of, write):
    function, code = traced.function, traced.code
    inner = Function(code, function.__globals__, function.__name__, function.__defaults__,
                               function.__closure__)
    inner.__kwdefaults__ = function.__kwdefaults__
    inner.__qualname__ = function.__qualname__
    inner.__module__ = function.__module__

    def leave(begun):
        end = now()
        try:
            write(begun, end, get_frame(1).f_back)
        except Exception:
            pass

    objects = {"call": inner}
    if code.co_flags & (GENERATOR | COROUTINE):
        objects["steps"] = hook_of(steps_of(traced, begin_of, write))
    else:
        objects.update(enter=hook_of(begin_of, traced), leave=hook_of(leave))
    new = new_code(code, objects)
    settings["frames"].add(new)
    function.__code__ = new
