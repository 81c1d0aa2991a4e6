"""GAN with two optimizers and DDP on both nets."""

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from pace import Pace

p = argparse.ArgumentParser()
p.add_argument("--critic", type=int, default=1)
p.add_argument("--slow-host", action="store_true")
a = p.parse_args()

cuda = torch.cuda.is_available()
dist.init_process_group("nccl" if cuda else "gloo")
rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
dev = torch.device("cuda", local) if cuda else torch.device("cpu")
if cuda:
    torch.cuda.set_device(dev)
torch.backends.cuda.matmul.allow_tf32 = True
W = 4096 if cuda else 64


def mlp(i, o, n):
    layers = [nn.Linear(i, W), nn.LeakyReLU(0.2)]
    for _ in range(n):
        layers += [nn.Linear(W, W), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Linear(W, o))


G, D = DDP(mlp(128, 784, 5).to(dev)), DDP(mlp(784, 1, 5).to(dev), broadcast_buffers=False)
opt_g = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()
B = 2048 if cuda else 8


def real_batch():
    return torch.rand(B, 784, device=dev) * 2 - 1


def read_lr_from_control_file(seconds):
    time.sleep(seconds)  # network file system
    return 2e-4


def train_d():
    opt_d.zero_grad()
    with torch.no_grad():
        fake = G(torch.randn(B, 128, device=dev))
    out = D(torch.cat([real_batch(), fake]))
    target = torch.cat([torch.ones(B, 1, device=dev), torch.zeros(B, 1, device=dev)])
    loss = bce(out, target)
    loss.backward()
    opt_d.step()
    return loss


def train_g():
    opt_g.zero_grad()
    loss = bce(D(G(torch.randn(B, 128, device=dev))), torch.ones(B, 1, device=dev))
    loss.backward()
    opt_g.step()
    return loss


pace = Pace(healthy=not a.slow_host)
normal = None
while pace.running():
    if a.slow_host:
        s = pace.step_s()
        if not pace.late():
            normal = s
        elif rank == 1:
            for group in opt_d.param_groups:
                group["lr"] = read_lr_from_control_file(0.10 * normal)  # a tenth of a step
    for _ in range(a.critic):
        ld = train_d()
    lg = train_g()
    if a.slow_host or pace.step % 10 == 0:
        d, g = ld.item(), lg.item()
        if rank == 0 and pace.step % 50 == 0:
            print(f"[{pace.step}] D {d:.3f} G {g:.3f}", flush=True)
pace.close()
dist.destroy_process_group()
