"""One rank of two that train together on CPUs: `slow_loader_job.py FAULT STEPS FROM`.

FAULT: `none`; `input`: the data loader of rank 1 is slow from step FROM on; `all`: the model of all ranks is;
`silence`: the step FROM takes nine seconds; `checkpoint`: rank 0 writes one after each FROM steps. A usual step mostly
sleeps, so that the load of the machine matters little.
"""

import io
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

FAULT, STEPS, FROM = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
RANK = int(os.environ["RANK"])


class Numbers(Dataset):
    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        if FAULT == "input" and RANK == 1 and index >= FROM:
            time.sleep(0.06)  # input
        return torch.ones(8), torch.ones(1)


class SlowFile(io.BytesIO):
    def close(self):
        pass

    def write(self, data):
        if not self.tell():
            time.sleep(0.4)
        return super().write(data)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)
        self.calls = 0

    def forward(self, x):
        time.sleep(0.08 if FAULT == "all" and self.calls >= FROM else 0.02)
        if FAULT == "silence" and self.calls == FROM:
            time.sleep(9)
        self.calls += 1
        return self.layer(x)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.environ["RENDEZVOUS"], rank=RANK,
                            world_size=int(os.environ["WORLD_SIZE"]))
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in DataLoader(Numbers(), batch_size=1):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        # A temporary would be freed by a thread of gloo, perhaps while Python ends.
        total = loss.detach()
        dist.all_reduce(total)
        optimizer.step()
        if FAULT == "checkpoint" and RANK == 0 and model.module.calls % FROM == 0:
            torch.save(model.state_dict(), SlowFile())


if __name__ == "__main__":
    main()
