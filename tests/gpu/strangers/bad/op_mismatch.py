"""Parameters averaged by hand; rank 1 restores from a checkpoint and broadcasts instead of averaging."""

import time

import torch
import torch.distributed as dist
from common_setup import BIG, setup


def average_weights(flat, world):
    dist.all_reduce(flat)
    flat.div_(world)


def publish_weights(flat):
    dist.broadcast(flat, src=1)


def main():
    rank, world, device = setup()
    flat = torch.randn(4 * BIG, device=device)
    for step in range(200):
        flat.mul_(0.999)
        restored = rank == 1 and step == 60
        if restored:
            publish_weights(flat)
        else:
            average_weights(flat, world)
        if step % 10 == 0:
            print("step", step, flat[0].item(), flush=True)
        time.sleep(0.03)
    print(flat.norm().item())
    dist.destroy_process_group()


main()
