"""Are the preload's figures correct, and are CUDA graphs unaffected? Under --timing full without a cost limit.

Durations are compared call by call with CUPTI's (torch's profiler), bus bandwidth with this test's events around many
calls, counts with the calls made. Then CUDA graphs, a captured collective, torch.compile and torch's profiler, each
of which must work as without xpurun.
"""

import signal
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

from timing_job import Block, DEVICE, GPU, WORLD, meet, synchronize

SHAPES = [
    (1024, 1024, 1024),
    (4096, 4096, 512),
    (8192, 2048, 4096),
    (2048, 8192, 2048),
    (512, 512, 8192),
    (4096, 4096, 4096),
]
SIZES = [1 << n for n in (10, 13, 16, 19, 22, 25, 28, 30)] if GPU else [1 << 10]
REPEATS = 20


def kernels(profile, contains=""):
    """(begin, end) in µs of the GPU's kernels, in order."""
    found = [(e.time_range.start, e.time_range.end) for e in profile.events()
             if e.device_type == torch.autograd.DeviceType.CUDA and contains in e.name.lower()
             and not e.name.startswith(("Mem", "nccl:"))]
    return sorted(found)


def measured(memory, call, repeats, contains="", rest=0.06):
    """Durations of the calls by CUPTI, and the preload's durations of the same calls."""
    synchronize()
    time.sleep(0.06)  # so that all earlier calls have been polled
    head = memory.ring_head() if memory else 0
    before = {op["index"]: op["calls"] for op in memory.ops()} if memory else {}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA] if GPU else None) as profile:
        for _ in range(repeats):
            call()
        synchronize()
    time.sleep(rest)
    spans = kernels(profile, contains)
    each, rest = divmod(len(spans), repeats)
    cupti = [] if rest or not each else [spans[i + each - 1][1] - spans[i][0] for i in range(0, len(spans), each)]
    ours, counted = {}, {}
    if memory:
        ops = {op["index"]: op for op in memory.ops()}
        counted = {i: op["calls"] - before.get(i, 0) for i, op in ops.items() if op["class"] in (1, 2)}
        for event in memory.events_between(head, memory.ring_head()):
            if ops[event["op"]]["class"] in (1, 2):
                ours.setdefault(event["op"], []).append(event["duration_ns"] / 1e3)
    index = max(ours, key=lambda i: len(ours[i]), default=None)
    return {
        "cupti_us": cupti,
        "ours_us": ours.get(index, []),
        "kernels": len(spans),
        "calls": counted.get(index, 0),
        "expected": repeats,
        "work": next((ops[i]["work"] for i in ours if i == index), 0) if memory else 0,
        "all_calls": ops[index]["calls"] if index is not None else 0,
    }


def matmuls(memory):
    found = {}
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float32, "fp32")):
        for m, n, k in SHAPES if GPU else SHAPES[:1]:
            a, b = torch.randn(m, k, device=DEVICE, dtype=dtype), torch.randn(k, n, device=DEVICE, dtype=dtype)
            for _ in range(3):
                torch.mm(a, b)
            found[f"{name} {m}x{n}x{k}"] = {**measured(memory, lambda: torch.mm(a, b), REPEATS), "flop": 2 * m * n * k}
    return found


def empty_pairs():
    """µs between two events with nothing between them: on an idle stream, and after work."""
    a = torch.randn(2048, 2048, device=DEVICE)
    found = {"idle": [], "busy": []}
    for name in found:
        for _ in range(30):
            first, second = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            if name == "busy":
                torch.mm(a, a)
            first.record()
            second.record()
            synchronize()
            found[name].append(first.elapsed_time(second) * 1e3)
    return {name: statistics.median(values) for name, values in found.items()}


def direct_us(call, repeats):
    """As nccl-tests do: many calls between two events."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    meet()
    begin.record()
    for _ in range(repeats):
        call()
    end.record()
    synchronize()
    return begin.elapsed_time(end) * 1e3 / repeats


def collectives(memory):
    found = {}
    for size in SIZES:
        x = torch.ones(size // 4, device=DEVICE)
        gathered = torch.empty(size // 4 * WORLD, device=DEVICE)
        calls = {"all_reduce": lambda: dist.all_reduce(x)}
        if GPU:
            calls["all_gather"] = lambda: dist.all_gather_into_tensor(gathered, x)
        for name, call in calls.items():
            for _ in range(5):
                call()
            meet()
            one = measured(memory, call, REPEATS, "nccl")
            direct = [direct_us(call, REPEATS) for _ in range(3)] if GPU else []
            found[f"{name} {size}"] = {
                **one,
                "direct_us": direct,
                "bytes": size if name == "all_reduce" else size * WORLD,
                "factor": 2 * (WORLD - 1) / WORLD if name == "all_reduce" else (WORLD - 1) / WORLD,
            }
    return found


KINDS = {1: "matmul", 2: "collective", 3: "memory", 4: "graph", 5: "untraced"}
ON_STREAM = ("cudaMemcpyAsync", "cudaMemcpy2DAsync", "cudaMemcpyPeerAsync", "cudaMemsetAsync")
STEPS = 40 if GPU else 2


def kind_of_kernel(name):
    name = name.lower()
    if name.startswith(("memcpy", "memset")):
        return "memory"
    if "nccl" in name:
        return "collective"
    library = any(word in name for word in ("gemm", "nvjet", "cublas", "splitk", "xmma", "cutlass_80", "cutlass_90"))
    return "matmul" if library and "fmha" not in name and "flash" not in name else "untraced"


def estimated(before, after):
    """The estimate of launcher/collect/gpu_time.cpp between two readings: seconds, samples, calls by kind."""
    fields = ("calls", "work", "timed", "timed_ns", "timed_work")
    known = {op["index"]: op for op in before}
    entries = [{**op, **{f: op[f] - known.get(op["index"], {}).get(f, 0) for f in fields}} for op in after]
    found = {}
    for number, kind in KINDS.items():
        ops = [
            op for op in entries if op["class"] == number and op["calls"] and (number != 3 or op["api"] in ON_STREAM)
        ]
        total = {f: sum(op[f] for op in ops) for f in fields}
        ns = 0
        for op in ops:
            if op["timed"]:
                ns += op["calls"] * op["timed_ns"] / op["timed"]
            elif total["timed_work"]:
                ns += op["work"] * total["timed_ns"] / total["timed_work"]
            elif total["timed"]:
                ns += op["calls"] * total["timed_ns"] / total["timed"]
        found[kind] = {"seconds": ns / 1e9, "samples": total["timed"], "calls": total["calls"]}
    return found


def gpu_time(memory):
    """Training of a small transformer: GPU time by kind, the estimate and CUPTI's sum."""
    torch.manual_seed(0)
    width = 2048 if GPU else 32
    model = nn.Sequential(*[Block(width, 16) for _ in range(3)]).to(DEVICE).to(torch.bfloat16 if GPU else torch.float32)
    model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(4, 1024 if GPU else 8, width, device=DEVICE, dtype=torch.bfloat16 if GPU else torch.float32)

    def step():
        model(x).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(5):
        step()
    synchronize()
    time.sleep(0.06)
    before = memory.ops() if memory else []
    theirs = {}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA] if GPU else None) as profile:
        for _ in range(STEPS):
            step()
        synchronize()
    time.sleep(0.06)
    ours = estimated(before, memory.ops()) if memory else {}
    for e in profile.events():
        if e.device_type == torch.autograd.DeviceType.CUDA and not e.name.startswith("nccl:"):
            kind = theirs.setdefault(kind_of_kernel(e.name), {"seconds": 0, "kernels": 0})
            kind["seconds"] += (e.time_range.end - e.time_range.start) / 1e6
            kind["kernels"] += 1
    return {"ours": ours, "cupti": theirs}


class TooLong(Exception):
    pass


def limited(seconds, part):
    """"ok", or the error."""
    def give_up(*_):
        raise TooLong(f"not done after {seconds} s")
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        part()
        synchronize()
        return "ok"
    except Exception as error:  # any exception of torch is the result
        return f"{type(error).__name__}: {error}"[:600]
    finally:
        signal.alarm(0)


def make_layer():
    """A layer that has run on a side stream first, as torch's documentation asks for before a capture."""
    x = torch.randn(32, 512, device=DEVICE)
    layer = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).to(DEVICE)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            layer(x).sum().backward()
        layer.zero_grad(set_to_none=True)
        with torch.no_grad():
            expected = layer(x)
    torch.cuda.current_stream().wait_stream(side)
    synchronize()
    return layer, x, expected


def graphed_callable():
    layer, x, expected = make_layer()
    graphed = torch.cuda.make_graphed_callables(layer, (x.clone(),))
    for _ in range(50):
        got = graphed(x)
        got.sum().backward()
    assert torch.allclose(expected, got, atol=1e-2), "another result"


def captured_collective():
    x = torch.randn(32, 512, device=DEVICE)
    dist.all_reduce(x.clone())
    synchronize()
    graph, out = torch.cuda.CUDAGraph(), torch.zeros(32, 32, device=DEVICE)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.mm(x, x.T)
    side.synchronize()
    with torch.cuda.graph(graph):
        out.copy_(torch.mm(x, x.T))
        dist.all_reduce(out)
    expected = torch.mm(x, x.T)
    dist.all_reduce(expected)
    for _ in range(20):
        graph.replay()
    synchronize()
    assert torch.allclose(out, expected, rtol=1e-2, atol=1), "another result"


def profiler_beside():
    layer, x, _ = make_layer()
    with torch.profiler.profile(activities=list(torch.profiler.supported_activities())) as profile:
        for _ in range(10):
            layer(x)
        synchronize()
    assert any("gemm" in e.name.lower() or "addmm" in e.name for e in profile.events()), "the profiler saw no matmul"


def compiled():
    layer, x, expected = make_layer()
    with torch.no_grad():
        fast = torch.compile(layer, mode="reduce-overhead")
        for _ in range(30):
            torch.compiler.cudagraph_mark_step_begin()
            got = fast(x)
        assert torch.allclose(expected, got, atol=1e-2), "another result"


def run(mode, memory, writer, deadline):
    if memory:
        time.sleep(0.2)
        writer.add("events' own time", dict(zip(("ns", "is off"), memory.event_overhead())))
    if mode.startswith("gpu-time"):
        writer.add("GPU time", gpu_time(memory))
        return
    writer.add("matmuls", matmuls(memory))
    if GPU:
        writer.add("empty pairs of events, us", empty_pairs())
    writer.add("collectives", collectives(memory))
    writer.add("GPU time", gpu_time(memory))
    if not GPU:
        return
    before = memory.health() if memory else {}
    for name, part, seconds in (
        ("make_graphed_callables", graphed_callable, 20),
        ("captured collective", captured_collective, 20),
        ("torch.profiler at the same time", profiler_beside, 20),
        ("torch.compile reduce-overhead", compiled, 90),
    ):
        left = int(deadline - time.monotonic())
        writer.add(name, limited(min(seconds, left), part) if left > 5 else "no time left")
    if memory:
        time.sleep(0.1)
        after = memory.health()
        launches = [op for op in memory.ops() if op["class"] == 4]
        writer.add(
            "graphs",
            {
                "captured calls": after["captured"] - before["captured"],
                "cuda errors": after["cuda_errors"],
                "launches": sum(op["calls"] for op in launches),
                "timed": sum(op["timed"] for op in launches),
            },
        )
