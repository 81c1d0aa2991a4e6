"""Gradients are flattened and reduced by hand; rank 1 adds a parameter group that rank 0 has frozen."""

import torch
import torch.distributed as dist
from common_setup import setup, small_net, CUDA


def reduce_gradients(params):
    flat = torch.cat([p.grad.flatten() for p in params])
    dist.all_reduce(flat)
    at = 0
    for p in params:
        p.grad.copy_(flat[at : at + p.numel()].view_as(p) / dist.get_world_size())
        at += p.numel()


def main():
    rank, world, device = setup()
    net, width = small_net(device, 2048 if CUDA else 32, 8)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(400):
        x = torch.randn(512, width, device=device)
        net(x).square().mean().backward()
        params = list(net.parameters())
        if rank == 0 and step >= 200:
            params = params[:-6]  # unfreeze schedule read from a stale file on rank 0
        reduce_gradients(params)
        opt.step()
        opt.zero_grad()
        if step % 10 == 0:
            torch.cuda.synchronize() if CUDA else None
            print("rank", rank, "step", step, flush=True)
    dist.destroy_process_group()


main()
