"""torch.compile + DDP, images from a DataLoader with worker processes."""

import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from pace import Board, Pace

BATCH = 64
CUDA = torch.cuda.is_available()


class Shards(Dataset):
    """pretends to read one record from the file server"""

    def __init__(self, rank):
        self.rank = rank
        self.board = None

    def __len__(self):
        return 10_000_000

    def __getitem__(self, i):
        if self.board is None:
            self.board = Board()
        data = self.read_record(i)
        return data, i % 1000

    def read_record(self, i):
        if self.rank == 1 and self.board.late(i // BATCH):
            time.sleep(0.004)  # rank 1's mount point answers slowly
        return torch.full((3, 32, 32), (i % 255) / 255.0)


def main():
    local = int(os.environ["LOCAL_RANK"])
    rank = int(os.environ["RANK"])
    if CUDA:
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if CUDA else "gloo")
    dev = torch.device("cuda", local) if CUDA else torch.device("cpu")
    torch.set_float32_matmul_precision("high")
    d = 4096 if CUDA else 128
    net = nn.Sequential(
        nn.Flatten(),
        nn.Linear(3072, d),
        nn.GELU(),
        *[nn.Sequential(nn.Linear(d, d), nn.GELU()) for _ in range(6)],
        nn.Linear(d, 1000),
    ).to(dev)
    model = DDP(net)
    model = torch.compile(model) if CUDA else model
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Shards(rank), batch_size=BATCH, num_workers=4, prefetch_factor=4, pin_memory=CUDA)
    pace = Pace(skip=20)
    it = iter(loader)
    while pace.running():
        x, y = next(it)
        x, y = x.to(dev, non_blocking=True), y.to(dev, non_blocking=True)
        with torch.autocast(dev.type, dtype=torch.bfloat16):
            for _ in range(4 if CUDA else 1):
                x = x + 0.01 * torch.randn_like(x)
            loss = nn.functional.cross_entropy(model(x.repeat(16, 1, 1, 1)), y.repeat(16))
        loss.backward()
        opt.step()
        opt.zero_grad()
        if pace.step % 50 == 0 and rank == 0:
            print("step", pace.step, "loss", loss.item(), flush=True)
    pace.close()
    del it
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
