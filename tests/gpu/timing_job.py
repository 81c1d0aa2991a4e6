"""What tests/gpu/timing.py runs on every rank, under torchrun: timing_job.py MODE RESULT.json

ab-fsdp, ab-ddp, ab-small: step times with timing off, light and full, switched in turn through xpurun's control
socket, so that both sides of the comparison are the same process. correct: matmuls and collectives under torch's
profiler. graphs: CUDA graphs, torch.compile and torch's profiler, each of which must work as without us.
"""

import json
import os
import pathlib
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

RANK, LOCAL = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
ROUNDS, STEPS, WARM = 12, 20, 5
LEVELS = ("off", "light", "full")
RUN = os.environ.get("XPURUN_TIMING_OUT")


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(b, s, w))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


def model_step(kind):
    torch.manual_seed(0)
    width = 4096 if kind == "fsdp" else 2048
    model = nn.Sequential(*[Block(width, 32) for _ in range(6)]).cuda().to(torch.bfloat16)
    if kind == "fsdp":
        from torch.distributed.fsdp import fully_shard
        for block in model:
            fully_shard(block)
        fully_shard(model)
    else:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[LOCAL])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(4, 1024, width, device="cuda", dtype=torch.bfloat16)

    def step():
        loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step


def small_step():
    a = torch.randn(64, 64, device="cuda")
    b = torch.randn(64, 64, device="cuda")

    def step():
        for _ in range(3000):
            torch.mm(a, b)
    return step


def ask(request):
    """Rank 0 asks the supervisor; everybody goes on together when the level must have arrived."""
    if RANK == 0:
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(json.loads((pathlib.Path(RUN) / "run.json").read_text())["control"])
            control.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(control.makefile().readline())
            assert answer["ok"], answer
    time.sleep(0.4)
    dist.barrier()
    torch.cuda.synchronize()


def timed_steps(step, count):
    times = []
    for i in range(WARM + count):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        if i >= WARM:
            times.append(time.perf_counter() - begin)
    return times


def ab(kind):
    step = small_step() if kind == "small" else model_step(kind)
    for _ in range(20):
        step()
    times = {level: [] for level in LEVELS}
    profiled = []
    for round_number in range(ROUNDS):
        # In another order every time, so that no level always follows the same other.
        for level in LEVELS[round_number % 3:] + LEVELS[:round_number % 3]:
            ask({"cmd": "timing", "level": level})
            times[level] += timed_steps(step, STEPS)
    ask({"cmd": "timing", "level": "off"})
    with torch.profiler.profile(activities=list(torch.profiler.supported_activities())):
        profiled = timed_steps(step, STEPS)
    return {"times": times, "torch_profiler": profiled}


SHAPES = [(1024, 1024, 1024), (4096, 4096, 512), (8192, 2048, 4096), (2048, 8192, 2048), (512, 512, 8192)]
SIZES = [1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 26, 1 << 30]
REPEATS = 20


def correct():
    matmuls, collectives = {}, {}
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float32, "fp32")):
        for m, n, k in SHAPES:
            a, b = torch.randn(m, k, device="cuda", dtype=dtype), torch.randn(k, n, device="cuda", dtype=dtype)
            torch.mm(a, b)
            torch.cuda.synchronize()
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                for _ in range(REPEATS):
                    torch.mm(a, b)
                torch.cuda.synchronize()
            kernels = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
            matmuls[f"{name} {n} {m} {k}"] = {"calls": REPEATS + 1, "us": sum(e.device_time for e in kernels) / REPEATS}
    for size in SIZES:
        x = torch.ones(size // 4, device="cuda")
        gathered = torch.empty(size // 4 * dist.get_world_size(), device="cuda")
        for op, call in (("AllReduce", lambda: dist.all_reduce(x)), ("AllGather", lambda: dist.all_gather_into_tensor(gathered, x))):
            call()
            dist.barrier()
            torch.cuda.synchronize()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                begin.record()
                for _ in range(REPEATS):
                    call()
                end.record()
                torch.cuda.synchronize()
            kernels = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA and "nccl" in e.name.lower()]
            collectives[f"{op} {size // 4}"] = {"calls": REPEATS + 1, "us": sum(e.device_time for e in kernels) / max(len(kernels), 1),
                                                "direct_us": begin.elapsed_time(end) * 1000 / REPEATS}
    return {"matmuls": matmuls, "collectives": collectives}


def graphs():
    done = []
    x = torch.randn(32, 512, device="cuda")
    layer = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda()
    expected = layer(x)
    graphed = torch.cuda.make_graphed_callables(layer, (x.clone().requires_grad_(),))
    for _ in range(50):
        got = graphed(x)
    assert torch.allclose(expected, got, atol=1e-3)
    done.append("make_graphed_callables")
    graph = torch.cuda.CUDAGraph()
    still = x.clone()
    with torch.cuda.graph(graph):
        out = still @ still.T
        dist.all_reduce(out)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.allclose(out, dist.get_world_size() * (x @ x.T), rtol=1e-2, atol=1) or RANK != 0
    done.append("captured collective")
    compiled = torch.compile(layer, mode="reduce-overhead")
    for _ in range(20):
        got = compiled(x)
    assert torch.allclose(expected, got, atol=1e-2)
    done.append("torch.compile reduce-overhead")
    with torch.profiler.profile(activities=list(torch.profiler.supported_activities())) as profile:
        for _ in range(10):
            layer(x)
        torch.cuda.synchronize()
    assert any("gemm" in e.name.lower() or "mm" in e.name for e in profile.events())
    done.append("torch.profiler")
    return {"done": done}


def main():
    mode, result = sys.argv[1:3]
    torch.cuda.set_device(LOCAL)
    dist.init_process_group("nccl")
    found = ab(mode[3:]) if mode.startswith("ab-") else {"correct": correct, "graphs": graphs}[mode]()
    torch.cuda.synchronize()
    # The poller's last look must find everything done.
    time.sleep(0.5)
    pathlib.Path(f"{result}.{RANK}").write_text(json.dumps(found))
    if "times" in found and RANK == 0:
        print({level: statistics.median(times) for level, times in found["times"].items()})
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
