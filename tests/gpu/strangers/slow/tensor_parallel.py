"""Megatron-style tensor parallel by hand: all_reduce in forward and backward; metrics written by a thread."""

import json
import os
import threading
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from pace import Pace, out_dir

cuda = torch.cuda.is_available()
D = 4096 if cuda else 64


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous()
        dist.all_reduce(g)
        return g


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


class ParallelMLP(nn.Module):
    def __init__(self, world):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.up = nn.Linear(D, 4 * D // world, bias=False)
        self.down = nn.Linear(4 * D // world, D, bias=False)

    def forward(self, x):
        h = Copy.apply(self.norm(x))
        return x + Reduce.apply(self.down(torch.nn.functional.gelu(self.up(h))))


class Metrics:
    def __init__(self, slow):
        self.lock = threading.Lock()
        self.rows = []
        self.slow = slow
        self.file = open(os.path.join(out_dir(), f"metrics.{dist.get_rank()}.jsonl"), "a")
        threading.Thread(target=self.flush_forever, daemon=True).start()

    def add(self, **row):
        with self.lock:
            self.rows.append(row)

    def flush_forever(self):
        while True:
            time.sleep(0.005)
            with self.lock:
                rows, self.rows = self.rows, []
                for r in rows:
                    self.file.write(json.dumps(r) + "\n")
                if self.slow():
                    time.sleep(0.03)  # the log directory is on a slow disk: the write takes that long, lock held
                self.file.flush()


def main():
    local = int(os.environ["LOCAL_RANK"])
    if cuda:
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if cuda else "gloo")
    dev = torch.device("cuda", local) if cuda else torch.device("cpu")
    torch.manual_seed(0)
    dtype = torch.bfloat16 if cuda else torch.float32
    model = nn.Sequential(*[ParallelMLP(dist.get_world_size()) for _ in range(4)]).to(dev, dtype)
    opt = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(4096 if cuda else 32, D, device=dev, dtype=dtype)
    pace = Pace()
    metrics = Metrics(lambda: dist.get_rank() == 1 and pace.late())
    while pace.running():
        loss = model(x).float().square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        metrics.add(step=pace.step, loss=loss.item())
        if pace.step % 100 == 0 and dist.get_rank() == 0:
            print("step", pace.step, flush=True)
    pace.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
