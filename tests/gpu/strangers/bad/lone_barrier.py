"""Barriers that not every rank reaches."""

import argparse
import os
import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from common_setup import setup, small_net

ap = argparse.ArgumentParser()
ap.add_argument("--kind", choices=["checkpoint", "profile"], required=True)
args = ap.parse_args()


def save_checkpoint(model, path):
    torch.save(model.state_dict(), path)
    dist.barrier()  # "all ranks must see the file"


def start_profiler(rank):
    print("profiling rank", rank, flush=True)
    dist.barrier()


def main():
    rank, world, device = setup()
    net, width = small_net(device)
    model = DDP(net)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    path = os.path.join(tempfile.mkdtemp(), "ckpt.pt")
    for step in range(600):
        x = torch.randn(256, width, device=device)
        loss = (model(x) - x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if args.kind == "checkpoint" and step == 200 and rank == 0:
            save_checkpoint(net, path)
        if args.kind == "profile" and step == 200 and rank == 1:
            start_profiler(rank)
        if step % 25 == 0:
            print(rank, step, loss.item(), flush=True)
    dist.destroy_process_group()


main()
