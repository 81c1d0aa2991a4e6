"""A kernel that never ends on one rank, before the gradients are reduced (or in a side stream)."""

import argparse
import time

import torch
import torch.distributed as dist
from common_setup import BIG, CUDA, setup

ap = argparse.ArgumentParser()
ap.add_argument("--side", action="store_true")
ap.add_argument("--rank", type=int, default=1)
args = ap.parse_args()


def run_solver(x, iterations):
    if CUDA:
        torch.cuda._sleep(iterations)  # iterates until it converges
    elif iterations > 1 << 40:
        time.sleep(10000)
    return x * 1.0


def main():
    rank, world, device = setup()
    grad = torch.ones(BIG, device=device)
    side = torch.cuda.Stream() if CUDA else None
    for step in range(300):
        n = 1 << 60 if (rank == args.rank and step == 100) else 100_000
        if args.side and CUDA:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                extra = run_solver(grad, n)
            torch.cuda.current_stream().wait_stream(side)
        else:
            extra = run_solver(grad, n)
        grad = grad * 0.5 + extra * 0.5
        dist.all_reduce(grad)
        grad /= world
        if step % 10 == 0:
            print(rank, step, grad[0].item(), flush=True)
    dist.destroy_process_group()


main()
