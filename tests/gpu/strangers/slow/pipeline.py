"""Two pipeline stages, micro-batches by send/recv (all forward, then all backward)."""

import os

import torch
import torch.distributed as dist
import torch.nn as nn
from pace import Pace

CUDA = torch.cuda.is_available()
D = 2048 if CUDA else 64
ROWS = 2048 if CUDA else 16
MICRO = 4


def stage_forward(stage, x, rank, dev):
    if rank == 1:
        x = torch.empty(ROWS, D, device=dev)
        dist.recv(x, src=0)
        x.requires_grad_()
    y = stage(x)
    if rank == 0:
        dist.send(y.detach(), dst=1)
    return x, y


def stage_backward(x, y, rank, dev):
    if rank == 1:
        loss = y.square().mean() / MICRO
        loss.backward()
        dist.send(x.grad, dst=0)
        return loss.detach()
    g = torch.empty(ROWS, D, device=dev)
    dist.recv(g, src=1)
    y.backward(g)


def release_memory():
    torch.cuda.empty_cache()


def main():
    local = int(os.environ["LOCAL_RANK"])
    if CUDA:
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if CUDA else "gloo")
    rank = dist.get_rank()
    dev = torch.device("cuda", local) if CUDA else torch.device("cpu")
    torch.backends.cuda.matmul.allow_tf32 = True
    stage = nn.Sequential(
        *[nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D), nn.LayerNorm(D)) for _ in range(4)]
    ).to(dev)
    opt = torch.optim.AdamW(stage.parameters(), lr=1e-4)
    data = torch.randn(MICRO, ROWS, D, device=dev)
    pace = Pace(ahead=40)
    while pace.running():
        kept, total = [], 0.0
        for m in range(MICRO):
            kept.append(stage_forward(stage, data[m], rank, dev))
        for x, y in kept:
            loss = stage_backward(x, y, rank, dev)
            if rank == 1:
                total = total + loss
                if pace.late() and CUDA:
                    release_memory()
        del kept, x, y
        opt.step()
        opt.zero_grad(set_to_none=True)
        if pace.step % 10 == 0 and rank == 1:
            print(pace.step, total.item(), flush=True)
    pace.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
