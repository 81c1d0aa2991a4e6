#!/usr/bin/env python3
"""A small training job for the examples: DistributedDataParallel, with NCCL on GPUs and gloo without.

Knows its rank from torchrun, Slurm or Open MPI. `--hang RANK` makes one rank wait for a batch that never comes.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def of_launcher(*names, default):
    return next((int(os.environ[name]) for name in names if name in os.environ), default)


def load_batch(step, hangs):
    if hangs and step == 5:
        time.sleep(100_000)
    return torch.randn(16, 64), torch.randn(16, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--hang", type=int, default=-1, metavar="RANK")
    arguments = parser.parse_args()

    rank = of_launcher("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", default=0)
    size = of_launcher("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", default=1)
    local_rank = of_launcher("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", default=0)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    dist.init_process_group("nccl" if on_gpu else "gloo", rank=rank, world_size=size)

    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(),
                                                        torch.nn.Linear(64, 1)).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(arguments.steps):
        inputs, targets = load_batch(step, hangs=rank == arguments.hang)
        loss = torch.nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0:
        print(f"{size} ranks, {arguments.steps} steps, loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
