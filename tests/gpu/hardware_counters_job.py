"""The job of tests/gpu/hardware_counters: hardware_counters_job.py FOLDER

Each step: matmuls, additions that only move memory, a copy from the host, a CUDA graph that is captured anew, a pause.
Once FOLDER/profile exists, torch.profiler looks at one step; FOLDER/end ends the job. FOLDER/job.RANK.json has the
ends of all steps by CLOCK_MONOTONIC, what a step does, the GPU, and how many graphs could not be captured.
"""

import json
import os
import pathlib
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile

FOLDER = pathlib.Path(sys.argv[1])
RANK = os.environ["RANK"]
SIZE, MATMULS = 8192, 10
ADDITIONS, ADDED = 10, 1 << 28  # elements of two bytes: 0.5 GiB read, 0.5 GiB written
COPIED = 1 << 28  # bytes
PAUSE_S = 0.01


def main():
    device = torch.device("cuda", 0)
    a = torch.randn(SIZE, SIZE, device=device, dtype=torch.bfloat16)
    b = torch.randn(ADDED, device=device, dtype=torch.bfloat16)
    c = torch.empty_like(b)
    host = torch.empty(COPIED, dtype=torch.uint8, pin_memory=True)
    there = torch.empty(COPIED, dtype=torch.uint8, device=device)
    small = torch.zeros(1024, device=device)
    ends, failed = [], []

    def step():
        for _ in range(MATMULS):
            a @ a
        for _ in range(ADDITIONS):
            torch.add(b, 1, out=c)
        there.copy_(host, non_blocking=True)
        torch.cuda.synchronize()
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                small.add_(1)
            graph.replay()
        except RuntimeError as error:
            failed.append(str(error))
        torch.cuda.synchronize()
        time.sleep(PAUSE_S)
        ends.append(time.monotonic_ns())

    for _ in range(5):
        step()
    (FOLDER / f"ready.{RANK}").touch()
    profiled = 0
    while not (FOLDER / "end").exists():
        if (FOLDER / "profile").exists() and not profiled:
            with profile(activities=[ProfilerActivity.CUDA]) as seen:
                step()
            profiled = sum(event.count for event in seen.key_averages())
            (FOLDER / f"profiled.{RANK}").touch()
        step()
    gpu = torch.cuda.get_device_properties(device)
    clock_khz, bus_bits = getattr(gpu, "memory_clock_rate", 0), getattr(gpu, "memory_bus_width", 0)
    (FOLDER / f"job.{RANK}.json").write_text(json.dumps({
        "gpu": gpu.name, "sms": gpu.multi_processor_count, "dram_peak": 2e3 * clock_khz * bus_bits / 8, "ends": ends,
        "matmul_flop": 2 * SIZE**3, "added_bytes": 4 * ADDED, "copied_bytes": COPIED, "profiled": profiled,
        "failed_graphs": failed}))


main()
