"""A thread shares metrics over the same group as the gradients; the order of the calls differs between ranks."""

import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from common_setup import BIG, setup, small_net

wake = threading.Event()


def share_metrics(device):
    if device.type == "cuda":
        torch.cuda.set_device(device)
    table = torch.zeros(BIG, device=device)
    while True:
        wake.wait()
        wake.clear()
        dist.all_reduce(table)
        table.sum().item()


def main():
    rank, world, device = setup()
    net, width = small_net(device)
    model = DDP(net)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    threading.Thread(target=share_metrics, args=(device,), daemon=True).start()
    for step in range(600):
        x = torch.randn(256, width, device=device)
        loss = (model(x) - x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step == (200 if rank == 0 else 400):  # "every minute", by each rank's own clock
            wake.set()
            time.sleep(0.1)
        if step % 10 == 0:
            value = loss.item()
            if step % 50 == 0:
                print(rank, step, value, flush=True)
    dist.destroy_process_group()


main()
