"""DataLoader without workers; augmentation in Python; rank 1's images are larger from the first step."""

import os
import random

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset
from tqdm import tqdm
from pace import Pace

cuda = torch.cuda.is_available()


def random_crop(pixels, n):
    out = []
    for _ in range(n):
        k = random.randrange(len(pixels) - 256)
        out.append([p * 2 - 1 for p in pixels[k : k + 256]])
    return out[-1]


class Photos(IterableDataset):
    def __init__(self, rank):
        self.size = 60 if rank == 1 else 25

    def __iter__(self):
        pixels = [random.random() for _ in range(4096)]
        while True:
            yield torch.tensor(random_crop(pixels, self.size)), 1


def main():
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    dev = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(dev)
    d = 2048 if cuda else 32
    model = DDP(nn.Sequential(nn.Linear(256, d), *[nn.Linear(d, d) for _ in range(4)], nn.Linear(d, 2)).to(dev))
    opt = torch.optim.AdamW(model.parameters())
    loader = iter(DataLoader(Photos(rank), batch_size=64))
    pace = Pace(from_start=True)
    bar = tqdm(disable=rank != 0, mininterval=1)
    while pace.running():
        x, y = next(loader)
        loss = nn.functional.cross_entropy(model(x.to(dev)), y.to(dev))
        loss.backward()
        opt.step()
        opt.zero_grad()
        bar.update(1)
        if pace.step % 10 == 0:
            bar.set_postfix(loss=loss.item())
    bar.close()
    pace.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
