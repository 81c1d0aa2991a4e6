"""Data and model groups hold the same ranks; rank 1 takes the wrong one."""

import torch
import torch.distributed as dist
from common_setup import setup, BIG


def sync_gradients(grad, group):
    dist.all_reduce(grad, group=group)
    return grad.norm()


def main():
    rank, world, device = setup()
    data_group = dist.new_group([0, 1])
    model_group = dist.new_group([0, 1])
    grad = torch.ones(BIG, device=device)
    dist.all_reduce(grad, group=model_group)
    for step in range(300):
        group = model_group if rank == 1 and step == 150 else data_group
        norm = sync_gradients(grad, group)
        grad.fill_(1.0)
        if step % 10 == 0:
            print(rank, step, norm.item(), flush=True)
    dist.all_reduce(grad, group=model_group)
    print(grad.sum().item())
    dist.destroy_process_group()


main()
