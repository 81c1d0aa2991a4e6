"""FSDP2 with layer drop: the coin is tossed on each rank."""

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from common_setup import CUDA, setup

D = 1024 if CUDA else 32


class Expert(nn.Module):
    def __init__(self, mult):
        super().__init__()
        self.up, self.down = nn.Linear(D, mult * D), nn.Linear(mult * D, D)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Expert(m) for m in (2, 4, 6, 8))
        self.drop = set()

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            if i in self.drop:
                continue
            x = layer(x)
        return x


def main():
    rank, world, device = setup()
    mesh = init_device_mesh(device.type, (world,))
    net = Net().to(device)
    for layer in net.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4)
    for step in range(300):
        net.drop = {1} if rank == 1 and step == 120 else set()
        x = torch.randn(256, D, device=device)
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        if step % 10 == 0:
            print(rank, step, loss.item(), flush=True)
    dist.destroy_process_group()


main()
