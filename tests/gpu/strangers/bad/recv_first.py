"""Halo exchange in which both sides receive first."""

import torch
import torch.distributed as dist
from common_setup import setup, BIG


def exchange_halo(mine, other, peer, order):
    if order == "safe" and dist.get_rank() == 0:
        dist.send(mine, dst=peer)
        dist.recv(other, src=peer)
    else:
        dist.recv(other, src=peer)
        dist.send(mine, dst=peer)
    return other.sum().item()


def main():
    rank, world, device = setup()
    mine, other = torch.ones(BIG, device=device), torch.empty(BIG, device=device)
    for step in range(120):
        order = "safe" if step < 100 else "new"
        total = exchange_halo(mine, other, 1 - rank, order)
        if step % 10 == 0:
            print(rank, step, total, flush=True)
    dist.destroy_process_group()


main()
