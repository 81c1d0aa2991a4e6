"""DDP training in which one rank ends early, in several ways."""

import argparse
import ctypes
import os
import signal
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from common_setup import setup, small_net

ap = argparse.ArgumentParser()
ap.add_argument("--kind", required=True, choices=["exit0", "raise", "kill", "segv", "assert", "oom", "finally"])
ap.add_argument("--rank", type=int, default=1)
args = ap.parse_args()
META = {i: "label%d" % i for i in range(150)}


def collate(step):
    return META[step]


def check_memory_limit():
    os.kill(os.getpid(), signal.SIGKILL)  # as the kernel's OOM killer does


def decode_native(address):
    return ctypes.string_at(address, 16)


def embed(table, ids):
    return table(ids).mean()


def full_logits(n, device):
    return torch.empty(n, 300_000, 1_000_000 // 1000, device=device)


def read_shard(rank, step):
    if args.kind == "exit0" and rank == args.rank and step >= 150:
        print("shard is empty, nothing to do", flush=True)
        sys.exit(0)


def drain_queue(pending):
    while pending:
        for item in list(pending):
            item.get("sent")  # nobody takes them out


def train(rank, device):
    net, width = small_net(device)
    model = DDP(net)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    table = nn.Embedding(1000, 64).to(device)
    for step in range(400):
        read_shard(rank, step)
        bad = rank == args.rank and step == 150
        x = torch.randn(256, width, device=device)
        loss = (model(x) - x).square().mean()
        if args.kind == "raise" and rank == args.rank:
            collate(step)
        if bad and args.kind == "kill":
            check_memory_limit()
        if bad and args.kind == "segv":
            decode_native(8)
        if bad and args.kind == "assert":
            loss = loss + embed(table, torch.tensor([3, 1000], device=device))
        if bad and args.kind == "oom":
            full_logits(1000, device)
        if bad and args.kind == "finally":
            raise ValueError("bad record 4711")
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            value = loss.item()
            if step % 50 == 0:
                print(rank, step, value, flush=True)


def main():
    rank, world, device = setup()
    pending = [{"event": 1}]
    if args.kind == "finally":
        try:
            train(rank, device)
        finally:
            drain_queue(pending)
            dist.destroy_process_group()
    else:
        train(rank, device)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
