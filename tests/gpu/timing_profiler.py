"""Durations of collectives by NCCL's own profiler interface, against CUPTI's kernels (torch's profiler), from 1 KB to
256 MB; then the cost of timing every collective of a DDP step, or of an FSDP step where all streams share a hardware
queue.
"""

import time

import torch
import torch.distributed as dist

from timing_ab import block, compare
from timing_checks import measured
from timing_job import DEVICE, GPU, WORLD, meet, model_step, synchronize

SIZES = [1 << n for n in (10, 14, 18, 20, 22, 24, 26, 28)] if GPU else [1 << 10]
REPEATS = 20
SAME = ("no collective", "no collective again", "every collective")


def ways(memory, head):
    """Algorithm, protocol, channels and sources of the collectives since `head`."""
    ops = {op["index"] for op in memory.ops() if op["class"] == 2}
    events = [e for e in memory.events_between(head, memory.ring_head()) if e["op"] in ops]
    names = ("unknown", "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"), (
        "unknown",
        "LL",
        "LL128",
        "simple",
    )
    found = sorted({(names[0][e["algorithm"]], names[1][e["protocol"]], e["channels"]) for e in events})
    return {"way": [f"{a}/{p} {c} channels" for a, p, c in found], "sources": sorted({e["source"] for e in events})}


def collectives(memory):
    found = {}
    for size in SIZES:
        x = torch.ones(size // 4, device=DEVICE)
        gathered = torch.empty(size // 4 * WORLD, device=DEVICE)
        calls = {"all_reduce": lambda: dist.all_reduce(x)}
        if GPU:
            calls["all_gather"] = lambda: dist.all_gather_into_tensor(gathered, x)
            calls["reduce_scatter"] = lambda: dist.reduce_scatter_tensor(x, gathered)
        for name, call in calls.items():
            for _ in range(3):
                call()
            meet()
            time.sleep(0.06)
            head = memory.ring_head() if memory else 0
            row = measured(memory, call, REPEATS, "nccl", rest=0.3)
            found[f"{name} {size}"] = {**row, **(ways(memory, head) if memory else {"way": [], "sources": []})}
    return found


def grouped(memory):
    """torch's coalescing: four all-gathers between ncclGroupStart and ncclGroupEnd."""
    inputs = [torch.ones(12345 + n, device=DEVICE) for n in range(4)]
    outputs = [torch.empty((12345 + n) * WORLD, device=DEVICE) for n in range(4)]

    def totals():
        ops = [op for op in memory.ops() if op["api"] == "ncclAllGather"]
        return {key: sum(op[key] for op in ops) for key in ("calls", "timed")}
    before = totals()
    for _ in range(10):
        with dist._coalescing_manager(device=DEVICE, async_ops=False):
            for given, out in zip(inputs, outputs):
                dist.all_gather_into_tensor(out, given)
    synchronize()
    time.sleep(0.5)
    return {key: value - before[key] for key, value in totals().items()}


def run(mode, memory, writer, deadline):
    if memory is None and GPU:
        raise RuntimeError("no shared memory: not under xpurun, or no supervisor")
    if mode == "profiler":
        writer.add("collectives", collectives(memory))
        if GPU:
            writer.add("grouped", grouped(memory))
            time.sleep(0.3)
            state, version, chain, _ = memory.profiler()
            health = memory.health()
            writer.add(
                "interface",
                {
                    "state": state,
                    "version": version,
                    "users plugin": chain,
                    **{key: health[key] for key in ("profiler_samples", "profiler_lost", "profiler_full")},
                },
            )
    if memory is None:
        return
    kind = "ddp" if mode == "profiler" else "fsdp"
    step = model_step(kind)
    block(step, 10)
    writer.add(kind, compare(memory, step, SAME, 14 if kind == "ddp" else 10, 15 if kind == "ddp" else 20, deadline))
