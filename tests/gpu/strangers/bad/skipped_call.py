"""Global gradient norm: a rank whose loss is small skips the reduction."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from common_setup import setup, small_net, BIG


def share_statistics(hist):
    dist.all_reduce(hist)


def main():
    rank, world, device = setup()
    net, width = small_net(device)
    model = DDP(net)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    hist = torch.zeros(2 * BIG, device=device)
    for step in range(300):
        x = torch.randn(128, width, device=device) * (0.001 if rank == 1 and step == 120 else 1.0)
        loss = (model(x) - x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        value = loss.item()
        if value > 0.05:
            share_statistics(hist)
        if step % 20 == 0:
            print(rank, step, value, flush=True)
    print(hist.sum().item())
    dist.destroy_process_group()


main()
