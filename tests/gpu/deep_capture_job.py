"""The job of tests/gpu/deep_capture: deep_capture_job.py FOLDER

Rank 0 obeys files in FOLDER: "profile-N" (torch.profiler for 10 steps, then "profiled-N"), "end". The ends of all
steps, by CLOCK_MONOTONIC, are in steps.RANK.json at the end, those that torch.profiler saw marked.
"""

import collections
import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

FOLDER = pathlib.Path(sys.argv[1])
RANK, LOCAL = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda", LOCAL) if GPU else torch.device("cpu")
WIDTH, LAYERS, TOKENS = (2048, 6, 4096) if GPU else (32, 2, 8)
PROFILED = 10
STEPS = []


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def kernels(trace):
    """Count and total time in us, by name, of a trace that torch.profiler has exported."""
    found = collections.defaultdict(lambda: [0, 0.0])
    told = json.loads(trace.read_text())
    for event in told if isinstance(told, list) else told["traceEvents"]:
        if event.get("cat") == "kernel":
            found[event["name"]][0] += 1
            found[event["name"]][1] += event["dur"]
    return found


def main():
    if GPU:
        torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl" if GPU else "gloo")
    orders = dist.new_group(backend="gloo")
    dtype = torch.bfloat16 if GPU else torch.float32
    model = nn.Sequential(*[Block() for _ in range(LAYERS)]).to(DEVICE).to(dtype)
    model = DistributedDataParallel(model, device_ids=[LOCAL] if GPU else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batch = torch.randn(TOKENS, WIDTH, device=DEVICE, dtype=dtype)

    def step(profiled=False):
        optimizer.zero_grad()
        model(batch).float().pow(2).mean().backward()
        optimizer.step()
        if GPU:
            torch.cuda.synchronize()
        STEPS.append((time.monotonic_ns(), profiled))

    def order():
        """0: go on, n: profile number n, -1: end. The same on all ranks."""
        told = torch.zeros(1, dtype=torch.int64)
        if RANK == 0:
            wanted = [n for n in (1, 2) if (FOLDER / f"profile-{n}").exists()
                      and not (FOLDER / f"profiled-{n}").exists()]
            told[0] = -1 if (FOLDER / "end").exists() else wanted[0] if wanted else 0
        dist.broadcast(told, 0, group=orders)
        return int(told)

    def profile_steps(number):
        activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if GPU else [])
        with profile(activities=activities) as seen:
            step()
            (FOLDER / f"profiling-{number}.{RANK}").touch()
            end = time.monotonic() + (3 if number == 2 else 0)
            steps = 1
            # The second one lasts as long as a capture that is tried meanwhile.
            going = torch.ones(1, dtype=torch.int64)
            while int(going):
                step(profiled=True)
                steps += 1
                going[0] = int(steps < PROFILED or time.monotonic() < end)
                dist.broadcast(going, 0, group=orders)
        trace = FOLDER / f"torch-{number}.{RANK}.json"
        seen.export_chrome_trace(str(trace))
        (FOLDER / f"torch-{number}.{RANK}.sums").write_text(json.dumps({"steps": steps, "kernels": kernels(trace)}))
        trace.unlink()
        dist.barrier(group=orders)
        if RANK == 0:
            (FOLDER / f"profiled-{number}").touch()
        dist.barrier(group=orders)

    for _ in range(20):
        step()
    (FOLDER / f"ready.{RANK}").touch()
    while (what := order()) >= 0:
        if what > 0:
            profile_steps(what)
        else:
            step()
    (FOLDER / f"steps.{RANK}.json").write_text(json.dumps(STEPS))
    dist.destroy_process_group()


main()
