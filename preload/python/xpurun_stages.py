"""Records the stages of training steps as spans: data, forward, backward, optimizer, checkpoint, evaluation, garbage.

sitecustomize.py reads this file when torch is imported. Wrappers and torch's own hooks note the begin, pass everything
through, and write one span at the end (xpurun_segment.py). Errors in here are not recorded and have no other effect.
"""
import sys
import time

settings = globals()["settings"]  # given by sitecustomize.py

shared = settings["part"]("xpurun_segment")
segment = shared["segment"]
local = segment.local
BACKWARD, CHECKPOINT, DATA, EVALUATION, FORWARD, GARBAGE, OPTIMIZER = (
    shared[name] for name in ("BACKWARD", "CHECKPOINT", "DATA", "EVALUATION", "FORWARD", "GARBAGE", "OPTIMIZER"))
now, cpu_now = time.monotonic_ns, time.thread_time_ns
# Shorter collections are not recorded: the youngest generation is collected hundreds of times per second.
SHORTEST_GARBAGE_NS = 250000

IN_FORWARD = 1 << FORWARD | 1 << EVALUATION
# A module that runs inside of these is a part of them: a transformation of the dataset, a recomputed layer.
NO_FORWARD_IN = IN_FORWARD | 1 << DATA | 1 << BACKWARD

# Each wrapper calls the function as the last thing inside of `try`: it adds one frame, and nothing else is seen.
WRAPPER = """def NAME(*args, **kwargs):
    begun = None
    try:
        begun = enter(args, get_frame(1))
    except Exception:
        pass
    try:
        return function(*args, **kwargs)
    finally:
        if begun is not None:
            try:
                leave(begun)
            except Exception:
                pass
"""
# For nested modules the first condition is all that they pay. torch.compile replaces is_compiling() by True, so it
# sees nothing but the call of the function.
MODULE_WRAPPER = """def NAME(*args, **kwargs):
    if is_compiling() or local.active & NO_FORWARD_IN:
        return function(*args, **kwargs)
    begun = None
    try:
        begun = enter(args, get_frame(1))
    except Exception:
        pass
    try:
        return function(*args, **kwargs)
    finally:
        if begun is not None:
            try:
                leave(begun)
            except Exception:
                pass
"""
DATA_WRAPPER = WRAPPER.replace("    finally:", "    except StopIteration:\n"
                               "        if begun is not None:\n"
                               "            begun[1] = \"DataLoader.end\"\n"
                               "        raise\n    finally:")


def begin(stage, name, frame):
    """What leave() needs; None if the stage is not recorded. The list holds no object of the program."""
    bit = 1 << stage
    if local.active & bit or not segment.wants_spans():
        return None
    place = segment.place_of(frame)
    local.active |= bit
    return [stage, name, place, now(), cpu_now(), segment.memory]


def leave(begun):
    stage, name, place, begin_ns, cpu, memory = begun
    cpu = cpu_now() - cpu
    end = now()
    local.active &= ~(1 << stage)
    if memory is segment.memory:
        segment.add_span(stage, segment.text(name), place, begin_ns, end, cpu)


def wrap(owner, name, source, enter, module, **more):
    function = getattr(owner, name)
    wrapper = shared["wrapper_of"](function, module, source, {"enter": enter, "leave": leave, **more})
    setattr(owner, name, wrapper)
    return wrapper


def wrap_modules(torch):
    module = sys.modules["torch.nn.modules.module"]
    compiler = getattr(torch, "compiler", None)
    is_compiling = getattr(compiler, "is_compiling", None)
    if is_compiling is None:
        if hasattr(torch, "compile"):
            return  # torch 2.0: nothing says that torch.compile is at work without importing all of it
        is_compiling = bool  # returns False
    is_grad_enabled = torch.is_grad_enabled

    def enter(args, frame):
        # A thread of the autograd engine recomputes layers.
        if backwards or not segment.wants_spans():
            return None
        return begin(FORWARD if is_grad_enabled() else EVALUATION, type(args[0]).__name__, frame)

    wrap(module.Module, "__call__", MODULE_WRAPPER, enter, module, is_compiling=is_compiling, local=local,
         NO_FORWARD_IN=NO_FORWARD_IN)


backwards = []  # one entry for each thread inside of backward()


def wrap_backward(torch):
    def enter(args, frame):
        begun = begin(BACKWARD, "backward", frame)
        if begun is not None:
            backwards.append(None)
        return begun

    def leave_backward(begun):
        backwards.pop()
        leave(begun)

    # Tensor.backward() calls this function.
    module = torch.autograd
    module.backward = shared["wrapper_of"](module.backward, module, WRAPPER,
                                           {"enter": enter, "leave": leave_backward})


def wrap_data(torch):
    module = sys.modules["torch.utils.data.dataloader"]
    wrap(module._BaseDataLoaderIter, "__next__", DATA_WRAPPER,
         lambda args, frame: begin(DATA, "DataLoader.__next__", frame), module)


def wrap_checkpoints(torch):
    module = sys.modules["torch.serialization"]
    is_same = torch.save is module.save
    wrapper = wrap(module, "save", WRAPPER, lambda args, frame: begin(CHECKPOINT, "torch.save", frame), module)
    if is_same:
        torch.save = wrapper
    # torch.load() prints warnings with the position of its caller, so it must not get a caller of ours. The work is
    # done below it.
    for name in ("_load", "_legacy_load"):
        wrap(module, name, WRAPPER, lambda args, frame: begin(CHECKPOINT, "torch.load", frame), module)


def hook_optimizers(torch):
    module = sys.modules["torch.optim.optimizer"]
    pre, post = (getattr(module, "register_optimizer_step_%s_hook" % when, None) for when in ("pre", "post"))
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    if pre is None:
        wrap_steps(module)
    elif is_compiling is not None:
        # local.optimizer: the optimizer's id and what leave() needs. A step that failed leaves them behind; the next
        # step replaces them.
        def before(optimizer, args, kwargs):
            if is_compiling():
                return
            try:
                local.active &= ~(1 << OPTIMIZER)
                local.optimizer = id(optimizer), begin(OPTIMIZER, type(optimizer).__name__ + ".step", get_frame(1))
            except Exception:
                pass

        def after(optimizer, args, kwargs):
            if is_compiling():
                return
            try:
                key, step = getattr(local, "optimizer", (0, None))
                if key == id(optimizer):
                    local.optimizer = 0, None
                    if step is not None:
                        leave(step)
            except Exception:
                pass

        get_frame = sys._getframe
        pre(before)
        post(after)


def wrap_steps(module):
    """torch 1.13: each class of optimizers has its own step(), which the first object of the class prepares."""
    prepare = module.Optimizer._hook_for_profile

    def enter(args, frame):
        return begin(OPTIMIZER, type(args[0]).__name__ + ".step", frame)

    def _hook_for_profile(self):
        prepare(self)
        try:
            step = type(self).step
            if step.__code__ not in settings["frames"]:
                type(self).step = shared["wrapper_of"](step, module, WRAPPER, {"enter": enter, "leave": leave})
        except Exception:
            pass

    _hook_for_profile.__code__ = _hook_for_profile.__code__.replace(co_filename=module.__file__)
    module.Optimizer._hook_for_profile = sys.modules["functools"].wraps(prepare)(_hook_for_profile)


def watch_garbage(torch):
    import gc
    text = segment.text
    begun = {}  # collections do not nest

    def collected(phase, info):
        try:
            if phase == "start":
                begun[0] = now()
                return
            begin_ns = begun.pop(0, None)
            if begin_ns is None or segment.memory is None:
                return
            end = now()
            if end - begin_ns < SHORTEST_GARBAGE_NS or not segment.wants_spans():
                return
            generation = info["generation"]
            place = segment.place_of(get_frame(1)) if generation == 2 else 0
            segment.add_span(GARBAGE, text("gc.collect(%d)" % generation), place, begin_ns, end)
        except Exception:
            pass

    get_frame = sys._getframe
    gc.callbacks.append(collected)


def install(torch):
    segment.package = torch.__file__[:-len("__init__.py")]
    for part in (wrap_data, wrap_modules, wrap_backward, hook_optimizers, wrap_checkpoints, watch_garbage):
        try:
            part(torch)
        except Exception:
            pass  # this release of torch is different; the other stages are still seen


def wrap_when_executed(spec):
    """`spec` belongs to torch, whose loader has not run yet."""
    shared["when_executed"](spec, install)
