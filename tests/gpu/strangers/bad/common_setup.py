"""What most of the scripts here begin with."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

CUDA = torch.cuda.is_available()
BIG = 16 * 1024 * 1024 if CUDA else 1 << 16  # numbers in a large buffer


def setup(timeout_s=1800):
    local = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local) if CUDA else torch.device("cpu")
    if CUDA:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if CUDA else "gloo", timeout=timedelta(seconds=timeout_s))
    torch.manual_seed(0)
    return dist.get_rank(), dist.get_world_size(), device


def small_net(device, width=None, depth=4):
    width = width or (1024 if CUDA else 32)
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers).to(device), width
