"""Records the stages of training steps as spans: data, forward, backward, optimizer, checkpoint, evaluation, garbage.

sitecustomize.py reads this file when torch is imported. Wrappers and torch's own hooks note the begin, pass everything
through, and write one span at the end (xpurun_segment.py). Errors in here are not recorded and have no other effect.

Modules are not wrapped: a step calls hundreds of them, and torch.compile guards each. The forward pass is the time from
the batch to `backward`, an evaluation the time from batch to batch without gradients.
"""
import sys
import time

settings = globals()["settings"]  # given by sitecustomize.py

shared = settings["part"]("xpurun_segment")
segment = shared["segment"]
is_users = shared["is_users"]
local = segment.local
BACKWARD, CHECKPOINT, DATA, EVALUATION, FORWARD, GARBAGE, GPU_MEMORY_AT, INFERRED, MEMORY_AT, OPTIMIZER, RECORD_AT = (
    shared[name] for name in ("BACKWARD", "CHECKPOINT", "DATA", "EVALUATION", "FORWARD", "GARBAGE", "GPU_MEMORY_AT",
                              "INFERRED", "MEMORY_AT", "OPTIMIZER", "RECORD_AT"))
pack_gpu_memory = shared["_struct"].Struct("=QQQQQ").pack_into
unpack_look = shared["_struct"].Struct("=IIII").unpack_from
kept = []  # what C has the address of
gpu_totals = {}  # bytes, by device
now, cpu_now, get_frame = time.monotonic_ns, time.thread_time_ns, sys._getframe
# Shorter collections are not recorded: the youngest generation is collected hundreds of times per second. But one a
# second is, because its span has the number of collections.
SHORTEST_GARBAGE_NS = 250000
GARBAGE_COUNT_NS = 1000000000
END_OF_EPOCH = "DataLoader.end"
GPU_MEMORY_NS = 1000000000
# All ranks look at their memory in the same step, or one step apart: when the clock of the host passes a multiple.
LOOK_EVERY_NS = 600 * 1000000000
MOST_COST = 2000  # a look costs at most one part in so many
FULL = 0.85  # of a GPU
FULL_STEPS = 3  # of the window then
REASONS = ("request", "growth")  # MemoryReason
# What ends a step: the stage with the highest number that the program has.
ENDS_STEP = {DATA: 1, BACKWARD: 2, OPTIMIZER: 3}
FIRST_LOOK, FIRST_LOOK_WITHOUT_OPTIMIZER = 2, 32  # steps; then the state of the optimizer exists

# Each wrapper calls the function as the last thing inside of `try`: it adds one frame, and nothing else is seen.
WRAPPER = """def NAME(*args, **kwargs):
    begun = None
    try:
        begun = enter()
    except BaseException as error:
        if is_users(error):
            raise
    try:
        return function(*args, **kwargs)
    finally:
        if begun is not None:
            try:
                leave(begun)
            except BaseException as error:
                if is_users(error):
                    raise
"""
METHOD_WRAPPER = WRAPPER.replace("enter()", "enter(args[0])")
DATA_WRAPPER = WRAPPER.replace("    finally:", "    except StopIteration:\n"
                               "        if begun is not None:\n"
                               "            begun[0] = END_OF_EPOCH\n"
                               "        raise\n    finally:")
WORKER_WRAPPER = """def NAME(*args, **kwargs):
    begin()
    return function(*args, **kwargs)
"""


def note_gpu_memory(memory, at_ns):
    """What PyTorch's allocator holds on the current device. It knows, so no GPU is asked."""
    segment.gpu_memory_ns = at_ns
    cuda = sys.modules["torch"].cuda
    if not cuda.is_initialized():
        return
    device = cuda.current_device()
    stats = cuda.memory.memory_stats_as_nested_dict(device)
    allocated = stats["allocated_bytes"]["all"]
    total = gpu_totals.get(device)
    if total is None:
        total = gpu_totals[device] = cuda.get_device_properties(device).total_memory
    pack_gpu_memory(memory, GPU_MEMORY_AT, at_ns, allocated["current"], stats["reserved_bytes"]["all"]["current"],
                    allocated["peak"], total)
    if allocated["peak"] > FULL * total and not steps.was_full:
        steps.was_full = True
        steps.due_ns = 0


class Steps:
    """Counts the steps, and knows when a look at the memory is due (xpurun_memory.py)."""

    def __init__(self):
        self.count = 0
        self.end = 1  # of ENDS_STEP
        self.looks = None  # of xpurun_memory.py
        self.is_first = True
        self.due_ns = 0
        self.seen = 0  # lowest byte of the latest request
        self.was_full = False  # the GPU
        self.knows_full = False

    def ended(self, memory, end, stage_end):
        if stage_end > self.end:
            self.end = stage_end
            self.count = 0
        self.count = count = self.count + 1
        looks = self.looks
        if self.is_first and not memory[MEMORY_AT]:
            if count < (FIRST_LOOK if self.end == ENDS_STEP[OPTIMIZER] else FIRST_LOOK_WITHOUT_OPTIMIZER):
                return
        elif memory[MEMORY_AT] == self.seen and end < self.due_ns and looks.window is None:
            looks.steps = count
            return
        try:
            self.look(memory, end)
        except Exception:
            pass

    def find_looks(self):
        if self.looks is None:
            self.looks = settings["part"]("xpurun_memory")["looks"]
        return self.looks

    def observe(self):
        """When CUDA is initialized."""
        try:
            if settings["is_rank"]:
                self.find_looks().observe()
        except Exception:
            pass

    def look(self, memory, end):
        looks = self.find_looks()
        looks.steps = self.count
        if looks.is_capturing():
            return  # the next step is looked at
        if looks.window is not None:
            if looks.window.is_over():
                looks.end_window()
            return
        number, length, reason, objects = unpack_look(memory, MEMORY_AT)
        if number & 255 != self.seen:
            self.seen = number & 255
            looks.request = number
            looks.begin_window(REASONS[reason], length, objects != 0)
        elif self.was_full and not self.knows_full:
            self.knows_full = True
            looks.begin_window("full", FULL_STEPS, False)
        elif self.is_first or end >= self.due_ns > 0:
            looks.look("first" if self.is_first else "time")
        self.is_first = False
        left_ns = LOOK_EVERY_NS - time.time_ns() % LOOK_EVERY_NS
        self.due_ns = end + max(left_ns, MOST_COST * looks.cost_ns)


steps = Steps()


def hooks_of(stage, its_name):
    """The functions that begin and end a span. enter() returns None if nothing is recorded; otherwise a list, which
    holds no object of the program, for leave()."""
    bit = 1 << stage
    is_data, is_backward, is_optimizer = stage == DATA, stage == BACKWARD, stage == OPTIMIZER
    ends_step = ENDS_STEP.get(stage, 0)
    is_grad_enabled = sys.modules["torch"].is_grad_enabled
    chances = settings["chances"]  # of the search for functions of the main program; soon empty

    def enter(name=its_name):
        memory = segment.span_memory
        if memory is None and segment.wants_spans():
            memory = segment.span_memory
        if memory is None or not memory[RECORD_AT]:
            local.state.since = None
            return None
        state = local.state
        active = state.active
        if active & bit:
            return None
        if is_backward and steps.looks is not None and steps.looks.window is not None:
            steps.looks.window.at_backward()
        place = segment.place_in_program(get_frame(2))
        state.active = active | bit
        for chance in chances:
            chance()
        cpu = cpu_now()
        begin_ns = now()
        since = state.since
        if since is not None and not active:
            before, since_ns, since_cpu, since_place = since
            if is_backward:
                segment.add_span(FORWARD, segment.text("forward (inferred)"), since_place, since_ns, begin_ns,
                                 cpu - since_cpu, 0, 0, 0, INFERRED)
            elif is_data and before == DATA and not is_grad_enabled():
                segment.add_span(EVALUATION, segment.text("evaluation (inferred)"), since_place, since_ns, begin_ns,
                                 cpu - since_cpu, 0, 0, 0, INFERRED)
        return [name, place, begin_ns, cpu, memory, state]

    def leave(begun):
        end = now()
        cpu_end = cpu_now()
        name, place, begin_ns, cpu, memory, state = begun
        state.active = active = state.active & ~bit
        if memory is not segment.memory:
            return
        if is_optimizer:
            segment.step_ended()
        segment.add_span(stage, segment.texts.get(name) or segment.text(name), place, begin_ns, end, cpu_end - cpu)
        # After a step of the optimizer memory is comparable from step to step. A program without one has other ends.
        if end - segment.gpu_memory_ns > (GPU_MEMORY_NS if is_optimizer else 10 * GPU_MEMORY_NS):
            note_gpu_memory(memory, end)
        if ends_step >= steps.end:
            steps.ended(memory, end, ends_step)
        # Without a DataLoader, the time before `backward` may hold any way to load a batch. Then nothing is inferred.
        if not active and (is_data or state.since is not None):
            state.since = None if name is END_OF_EPOCH else (stage, end, cpu_end, place)

    return enter, leave


def wrap(owner, name, stage, span_name, module, source=WRAPPER):
    enter, leave = hooks_of(stage, span_name)
    wrapper = shared["wrapper_of"](getattr(owner, name), module, source,
                                   {"enter": enter, "leave": leave, "END_OF_EPOCH": END_OF_EPOCH})
    setattr(owner, name, wrapper)
    return wrapper


def wrap_backward(torch):
    # Tensor.backward() calls this function.
    wrap(torch.autograd, "backward", BACKWARD, "backward", torch.autograd)


def wrap_data(torch):
    module = sys.modules["torch.utils.data.dataloader"]
    wrap(module._BaseDataLoaderIter, "__next__", DATA, "DataLoader.__next__", module, DATA_WRAPPER)


def wrap_workers(torch):
    """The memory of a loader's worker is sampled, as that of its rank is."""
    begin = sys.modules["ctypes"].CDLL(None).xpurun_sample_worker
    module = sys.modules["torch.utils.data._utils.worker"]
    module._worker_loop = shared["wrapper_of"](module._worker_loop, module, WORKER_WRAPPER, {"begin": begin})


def wrap_checkpoints(torch):
    module = sys.modules["torch.serialization"]
    is_same = torch.save is module.save
    wrapper = wrap(module, "save", CHECKPOINT, "torch.save", module)
    if is_same:
        torch.save = wrapper
    # torch.load() prints warnings with the position of its caller, so its caller must stay the program. The functions
    # below torch.load() do the work.
    for name in ("_load", "_legacy_load"):
        wrap(module, name, CHECKPOINT, "torch.load", module)


def hook_optimizers(torch):
    module = sys.modules["torch.optim.optimizer"]
    pre, post = (getattr(module, "register_optimizer_step_%s_hook" % when, None) for when in ("pre", "post"))
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    enter, leave = hooks_of(OPTIMIZER, "step")
    others = ~(1 << OPTIMIZER)
    if pre is None:
        wrap_steps(module, enter, leave)
    elif is_compiling is not None:
        # state.optimizer: the optimizer's id and what leave() needs. A step that failed leaves them behind; the next
        # step replaces them.
        def before(optimizer, args, kwargs):
            if is_compiling():
                return
            try:
                state = local.state
                state.active &= others
                step = enter(type(optimizer).__name__ + ".step")
                state.optimizer = None if step is None else (id(optimizer), step)
            except Exception:
                pass

        def after(optimizer, args, kwargs):
            if is_compiling():
                return
            try:
                step = local.state.optimizer
                if step is not None and step[0] == id(optimizer):
                    local.state.optimizer = None
                    leave(step[1])
            except Exception:
                pass

        pre(before)
        post(after)


def wrap_steps(module, enter, leave):
    """torch 1.13: each class of optimizers has its own step(), which the first object of the class prepares."""
    prepare = module.Optimizer._hook_for_profile

    def enter_step(optimizer):
        return enter(type(optimizer).__name__ + ".step")

    def _hook_for_profile(self):
        prepare(self)
        try:
            step = type(self).step
            if step.__code__ not in settings["frames"]:
                type(self).step = shared["wrapper_of"](step, module, METHOD_WRAPPER,
                                                       {"enter": enter_step, "leave": leave})
        except Exception:
            pass

    _hook_for_profile.__code__ = _hook_for_profile.__code__.replace(co_filename=module.__file__)
    module.Optimizer._hook_for_profile = sys.modules["functools"].wraps(prepare)(_hook_for_profile)


def shielded(function):
    """A function of C that calls this one where exceptions are dropped (preload/process/python_shield.h). Fails without
    ctypes, which torch needs, and without the preload library."""
    ctypes = sys.modules["ctypes"]
    library = ctypes.PyDLL(None)
    takes_tuple = 1  # METH_VARARGS

    class Definition(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                    ("about", ctypes.c_char_p)]

    address = ctypes.cast(library.xpurun_shielded, ctypes.c_void_p).value
    definition = Definition(b"xpurun", address, takes_tuple, None)
    kept.append(definition)
    make = library.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(definition), function, None)


def watch_garbage(torch):
    import gc
    text = segment.text
    begun = {}  # collections do not nest
    count = written_ns = 0

    def collected(phase, info):
        nonlocal count, written_ns
        try:
            if phase == "start":
                if segment.memory is not None:
                    begun[0] = now()
                return
            count += 1
            begin_ns = begun.pop(0, None)
            if begin_ns is None:
                return
            end = now()
            is_short = end - begin_ns < SHORTEST_GARBAGE_NS and end - written_ns < GARBAGE_COUNT_NS
            if is_short or not segment.wants_spans():
                return
            written_ns = end
            generation = info["generation"]
            place = segment.place_of(get_frame(1)) if generation == 2 else 0
            segment.add_span(GARBAGE, text("gc.collect(%d)" % generation), place, begin_ns, end, -1, 0, count,
                             info["collected"])
        except BaseException as error:
            if is_users(error):
                raise

    gc.callbacks.append(shielded(collected))


def await_cuda(torch):
    torch.cuda._queued_calls.append((steps.observe, []))  # PyTorch calls them when it has initialized CUDA


def install(torch):
    segment.package = torch.__file__[:-len("__init__.py")]
    for part in (wrap_data, wrap_workers, wrap_backward, hook_optimizers, wrap_checkpoints, watch_garbage, await_cuda):
        try:
            part(torch)
        except Exception:
            pass  # this release of torch is different; the other stages are still seen


def watched(spec):
    """`spec` belongs to torch, whose loader has not run yet; None if there is none."""
    return None if spec is None else settings["part"]("xpurun_watch")["when_executed"](spec, install)
