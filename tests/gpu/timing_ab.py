"""Step times at different timing levels, switched in turn within one process through the fields of the shared
memory that the supervisor normally writes. A round has a block of steps of every variant; blocks of one round are
compared with each other, so that clocks that drift over seconds cancel out. The GPU never idles between blocks: steps
go on until the new level is in force and the clocks have settled. One variant is off twice: the difference between
the two is noise.
"""

import gc
import math
import time

import torch
import torch.distributed as dist

import segment
from timing_job import DEVICE, GPU, model_step, small_step, synchronize, meet

ALL = 0x7f
MATMUL, COLLECTIVE = 1 << 1, 1 << 2
NO_LIMIT, BUDGET = 1_000_000_000, 1000
LEVELS = {"off": segment.OFF, "light": segment.LIGHT, "full": segment.FULL}
# name: level, budget in ppm, classes that are not timed, poll interval in µs (0: default)
VARIANTS = {
    "off": ("off", BUDGET, 0, 0),
    "off again": ("off", BUDGET, 0, 0),
    "light": ("light", BUDGET, 0, 0),
    "full": ("full", BUDGET, 0, 0),
    # For diagnosis.
    "counts only": ("light", BUDGET, ALL, 0),
    "light, looks each ms": ("light", BUDGET, 0, 1000),
    "every call": ("full", NO_LIMIT, 0, 0),
    "every matmul": ("full", NO_LIMIT, ALL & ~MATMUL, 0),
    "every collective": ("full", NO_LIMIT, ALL & ~COLLECTIVE, 0),
    # The reference for "every collective", with the same level: NCCL's interface keeps timing only communicators of
    # which
    # # every call was seen, so the level must not change.
    "no collective": ("full", NO_LIMIT, ALL, 0),
    "no collective again": ("full", NO_LIMIT, ALL, 0),
    "every call, looks each ms": ("full", NO_LIMIT, 0, 1000),
}
MAIN = ("off", "off again", "light", "full")
DIAGNOSIS = tuple(name for name in VARIANTS if name not in MAIN and not name.startswith("no "))
WARM = 3
SETTLE = 0.45  # seconds: the preload checks for a new level four times a second
HEALTH = (
    "own_ns event_host_ns mark_host_ns poller_cpu_ns samples marks gpu_ns polls no_event stream_full queue_full"
    " profiler_samples profiler_host_ns kernel_launches calls".split()
)


def ask(memory, name):
    """Sets the variant; the rank follows within a quarter of a second."""
    level, budget, untimed, poll_us = VARIANTS[name]
    memory.set_budget(budget)
    memory.set_untimed(untimed)
    memory.set_poll_us(poll_us)
    memory.set_level(LEVELS[level])


def counters(memory):
    """What the library says of itself, and the calls it has counted."""
    ops = memory.ops()
    return {
        **memory.health(),
        "calls": sum(op["calls"] for op in ops),
        "kernel_launches": sum(op["calls"] for op in ops if op["class"] == 5),
    }


def block(step, count, warm=WARM):
    """Seconds per step."""
    for _ in range(warm):
        step()
    synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        step()
    synchronize()
    return (time.perf_counter() - begin) / count


def agreed(value):
    """The value of rank 0."""
    told = torch.tensor([float(value)], device=DEVICE)
    dist.broadcast(told, 0)
    return told.item()


def compare(memory, step, names, rounds, count, deadline):
    """{variant: {"times": [seconds a step], health counters: [a step]}} by round, against the first of `names`."""
    gc.collect()
    gc.freeze()
    found = {name: {"times": [], "period": [], **{key: [] for key in HEALTH}} for name in names}
    warm = max(WARM, math.ceil(SETTLE * (1 if GPU else 0.05) / agreed(block(step, 5))))
    # Let the budget find its periods first.
    for name in names[1:]:
        if VARIANTS[name][0] != "off":
            ask(memory, name)
            meet()
            end = time.perf_counter() + (1.5 if GPU else 0.05)
            while agreed(time.perf_counter() < end):
                step()
    for number in range(rounds):
        if agreed(time.monotonic() > deadline):
            break
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            gc.collect()
            ask(memory, name)
            for _ in range(warm):
                step()
            if GPU and memory.state()[2] != LEVELS[VARIANTS[name][0]]:
                raise RuntimeError(f"the level of {name} does not come into force: {memory.state()}")
            before = counters(memory)
            seconds = block(step, count)
            after = counters(memory)
            found[name]["times"].append(seconds)
            found[name]["period"].append(memory.state()[3])
            for key in HEALTH:
                found[name][key].append((after[key] - before[key]) / (count + WARM))
    ask(memory, names[0])
    meet()
    return {"steps": count, "base": names[0], "variants": found}


def profiled(step, count):
    """Seconds per step under torch's profiler, and without it just before."""
    without = block(step, count)
    with torch.profiler.profile(activities=list(torch.profiler.supported_activities())):
        within = block(step, count)
    return {"without": without, "with": within}


def run(mode, memory, writer, deadline):
    alone = memory is None
    if alone and GPU:
        raise RuntimeError("no shared memory: not under xpurun, or no supervisor")
    memory = memory or segment.Segment()
    share = 1 if GPU else 0.05

    def within(seconds):
        return min(deadline, time.monotonic() + seconds * share)

    if mode == "ab-small":
        small = small_step()
        block(small, 5)
        writer.add("small", compare(memory, small, MAIN, 20, 10, within(65)))
        for name in ("counts only", "every call"):
            writer.add(f"small: {name}", compare(memory, small, ("off", name), 7, 10, within(13)))
        return
    if mode == "ab-shared-queue":
        fsdp = model_step("fsdp")
        block(fsdp, 10)
        writer.add("fsdp", compare(memory, fsdp, MAIN, 15, 14, within(80)))
        return
    ddp = model_step("ddp")
    block(ddp, 20)
    if mode == "ab-causes":
        for name in DIAGNOSIS:
            writer.add(f"ddp: {name}", compare(memory, ddp, ("off", name), 7, 15, within(13)))
        return
    writer.add("ddp", compare(memory, ddp, MAIN, 40, 15, within(145)))
    fsdp = model_step("fsdp")
    block(fsdp, 10)
    writer.add("fsdp", compare(memory, fsdp, MAIN, 15, 14, within(85)))
    # Last, because CUPTI stays loaded.
    writer.add("ddp under torch's profiler", profiled(ddp, 20))
    writer.add("fsdp under torch's profiler", profiled(fsdp, 10))
