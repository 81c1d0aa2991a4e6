"""A training loop of two ranks, the second of which keeps what it has computed: memory_job.py DIR MIB_A_STEP.

Writes DIR/memory-RANK.json: at the end of each step the time (CLOCK_MONOTONIC, ns) and the bytes that PyTorch has
allocated and reserved, and the cost of asking PyTorch for them, in us. Ends when the GPU of rank 1 is full.
"""

import json
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

DIR, MIB_A_STEP = pathlib.Path(sys.argv[1]), int(sys.argv[2])
STEP_S = 0.1


def cost_of_asking():
    times = []
    for _ in range(1000):
        begin = time.perf_counter()
        torch.cuda.memory.memory_stats_as_nested_dict(torch.cuda.current_device())
        times.append(time.perf_counter() - begin)
    return 1e6 * sorted(times)[500]


def write(rank, seen, asking_us):
    whole = DIR / f"memory-{rank}.new"
    whole.write_text(json.dumps({"seen": seen, "asking_us": asking_us}))
    whole.replace(DIR / f"memory-{rank}.json")


def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank)
    layers = [nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True) for _ in range(12)]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers).cuda(), device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters())
    kept, seen, asking_us = [], [], cost_of_asking()
    try:
        for step in range(2000):  # until the GPU is full
            if step % 10 == 0:
                write(rank, seen, asking_us)
            begin = time.monotonic()
            loss = model(torch.randn(8, 512, 1024, device="cuda")).square().mean()
            loss.backward()
            optimizer.step()
            seen.append([time.monotonic_ns(), torch.cuda.memory_allocated(), torch.cuda.memory_reserved()])
            optimizer.zero_grad()
            if rank == 1:
                kept.append(torch.empty(MIB_A_STEP << 20, dtype=torch.uint8, device="cuda"))
            time.sleep(max(0, begin + STEP_S - time.monotonic()))
    finally:
        write(rank, seen, asking_us)


main()
