"""DDP; the evaluation of rank 0 averages its accuracy over the ranks, but only rank 0 evaluates."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from common_setup import setup, small_net


def evaluate(net, x):
    with torch.no_grad():
        score = net(x).mean()
        dist.all_reduce(score)
        return score.item() / dist.get_world_size()


def train_epoch(model, opt, width, device, steps):
    for _ in range(steps):
        x = torch.randn(256, width, device=device)
        loss = (model(x) - x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def main():
    rank, world, device = setup()
    net, width = small_net(device)
    model = DDP(net)
    opt = torch.optim.Adam(model.parameters())
    x = torch.randn(256, width, device=device)
    for epoch in range(5):
        loss = train_epoch(model, opt, width, device, 150)
        print("rank", rank, "epoch", epoch, "loss", loss, flush=True)
        if rank == 0 and epoch == 2:
            print("accuracy", evaluate(net, x), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
