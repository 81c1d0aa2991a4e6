"""Training loops that write down where their steps end: steps_job.py KIND DIR STEPS, one process a rank.

KIND: ddp, fsdp, accumulate (gradients of four batches), pipeline (two stages, point-to-point), none (no training). DIR
gets `ends-RANK.json`: wall times in ns. STEPS may be a duration such as 500s; each minute then has an evaluation of all
ranks and a checkpoint that rank 0 writes alone. Where ranks outnumber the GPUs, they share them. STEPS_JOB_WIDTH is the
width of the layers. Without a GPU small models on gloo run, which only tests this program.
A file `profile` in DIR makes the ranks profile the next five steps with torch.profiler: `torch-RANK.pt.trace.json`.
"""

import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

KIND, DIR = sys.argv[1], pathlib.Path(sys.argv[2])
SECONDS = float(sys.argv[3][:-1]) if sys.argv[3].endswith("s") else None
STEPS = 1 << 40 if SECONDS else int(sys.argv[3])
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
GPU = torch.cuda.is_available()
if GPU and torch.cuda.device_count() < WORLD:
    os.environ["NCCL_HOSTID"] = f"host-{RANK}"  # NCCL refuses two ranks of one host on one GPU
LOCAL = int(os.environ["LOCAL_RANK"]) % max(1, torch.cuda.device_count())
DEVICE = torch.device("cuda", LOCAL) if GPU else torch.device("cpu")
WIDTH, LAYERS, ROWS = (int(os.environ.get("STEPS_JOB_WIDTH", "4096")), 6, 8192) if GPU else (64, 2, 16)
PAUSE_S = 60        # from one evaluation to the next
CHECKPOINT_S = 5    # how long rank 0 works alone
DTYPE = torch.bfloat16 if GPU else torch.float32


def layers(count):
    return nn.Sequential(*[nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(),
                                         nn.Linear(2 * WIDTH, WIDTH)) for _ in range(count)]).to(DEVICE, DTYPE)


def batches():
    while True:
        yield torch.randn(ROWS, WIDTH, device=DEVICE, dtype=DTYPE)


def data_parallel(passes):
    model = layers(LAYERS)
    if KIND == "fsdp" and GPU:
        from torch.distributed.fsdp import fully_shard
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
    else:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[DEVICE.index] if GPU else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    source = batches()

    def step():
        optimizer.zero_grad()
        for _ in range(passes):
            model(next(source)).float().square().mean().backward()
        optimizer.step()
    return step


def pipeline():
    """GPipe with four micro-batches: rank 0 has the first half of the layers."""
    model = layers(LAYERS // 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    source = batches()

    def forward():
        if RANK == 0:
            x, y = None, model(next(source))
            dist.send(y.detach(), 1)
        else:
            x = torch.empty(ROWS, WIDTH, device=DEVICE, dtype=DTYPE, requires_grad=True)
            with torch.no_grad():
                dist.recv(x, 0)
            y = model(x).float().square().mean()
        return x, y

    def backward(x, y):
        if RANK == 0:
            gradient = torch.empty_like(y)
            dist.recv(gradient, 1)
            y.backward(gradient)
        else:
            y.backward()
            dist.send(x.grad, 0)

    def step():
        optimizer.zero_grad()
        for done in [forward() for _ in range(4)]:
            backward(*done)
        optimizer.step()
    return step


def no_training():
    generator = torch.Generator().manual_seed(RANK)
    weights = torch.randn(WIDTH, WIDTH, device=DEVICE, dtype=DTYPE)

    def step():
        rows = int(torch.randint(1, ROWS, (1,), generator=generator))
        with torch.no_grad():
            torch.randn(rows, WIDTH, device=DEVICE, dtype=DTYPE) @ weights
        time.sleep(float(torch.rand(1, generator=generator)) * 0.02)
    return step


class Clock:
    """Ends the ranks after the same step, and makes the pauses of a real training run."""

    def __init__(self):
        self.end = time.monotonic() + SECONDS
        self.next_pause = time.monotonic() + PAUSE_S / 2
        self.word = torch.zeros(2, device=DEVICE)

    def over(self, step):
        self.word[0] = time.monotonic() > self.end
        self.word[1] = time.monotonic() > self.next_pause
        dist.broadcast(self.word, 0)
        over, pause = self.word.tolist()
        if pause:
            self.next_pause += PAUSE_S
            with torch.no_grad():
                for _ in range(20):
                    torch.randn(ROWS, WIDTH, device=DEVICE, dtype=DTYPE).sum().item()
            if RANK == 0:
                began = time.monotonic()
                while time.monotonic() - began < CHECKPOINT_S:
                    torch.save({"step": step, "word": self.word}, DIR / "checkpoint.pt")
                    time.sleep(0.1)
            dist.barrier()
        return bool(over)


def main():
    if GPU:
        torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl" if GPU else "gloo")
    step = {"ddp": lambda: data_parallel(1), "fsdp": lambda: data_parallel(1), "accumulate": lambda: data_parallel(4),
            "pipeline": pipeline, "none": no_training}[KIND]()
    ends = []
    clock = Clock() if SECONDS else None
    profiler, profiled = None, 0
    for number in range(STEPS):
        step()
        ends.append(time.time_ns())
        if number % 20 == 19 and GPU:
            torch.cuda.synchronize()
        if clock and number % 20 == 19 and clock.over(number):
            break
        if profiler:
            profiler.step()
            profiled += 1
            if profiled == 7:
                profiler.stop()
                profiler.export_chrome_trace(str(DIR / f"torch-{RANK}.pt.trace.json"))
                profiler = None
        elif profiled == 0 and number % 20 == 19 and (DIR / "profile").exists():
            dist.barrier()  # the file may appear between the ranks' looks at it: all ranks begin here, or no rank
            kinds = [torch.profiler.ProfilerActivity.CPU] + [torch.profiler.ProfilerActivity.CUDA] * GPU
            profiler = torch.profiler.profile(activities=kinds,
                                              schedule=torch.profiler.schedule(wait=1, warmup=1, active=5))
            profiler.start()
    if GPU:
        torch.cuda.synchronize()
    (DIR / f"ends-{RANK}.json").write_text(json.dumps({"ends": ends}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
