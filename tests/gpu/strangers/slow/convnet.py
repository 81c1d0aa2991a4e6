"""Residual net on random images; DDP; three kinds of host trouble."""

import argparse
import logging
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from pace import Pace, out_dir

parser = argparse.ArgumentParser()
parser.add_argument("--mode", choices=["spell", "tenth", "schedule", "eval", "shapes", "evalok"], required=True)
opts = parser.parse_args()
cuda = torch.cuda.is_available()


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv2d(c, c, 3, 1, 1, bias=False),
            nn.BatchNorm2d(c),
            nn.ReLU(),
            nn.Conv2d(c, c, 3, 1, 1, bias=False),
            nn.BatchNorm2d(c),
        )

    def forward(self, x):
        return torch.relu(x + self.f(x))


def net(c):
    return nn.Sequential(
        nn.Conv2d(3, c, 3, 1, 1),
        *[Res(c) for _ in range(8)],
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(c, 100),
    )


def reread_labels():
    """the label file was moved; a network drive answers after some time"""
    time.sleep(0.04)


def log_image_statistics(images):
    rows = images[:2, 0].flatten().tolist()
    counts = [0] * 32
    for v in rows * (100 if cuda else 5):
        counts[min(31, max(0, int(v * 4) + 16))] += 1
    return counts


class Schedule:
    """a learning rate from the whole history, written in Python"""

    def __init__(self, opt):
        self.opt, self.history = opt, []

    def smoothed(self, width):
        out = 0.0
        for k in range(width):
            for v in self.history[-50:]:
                out = 0.99 * out + 0.01 * v
        return out

    def step(self, loss, width):
        self.history.append(loss)
        self.opt.param_groups[0]["lr"] = 0.01 / (1 + abs(self.smoothed(width)))


@torch.no_grad()
def evaluate(model, x, y, python_loop):
    model.eval()
    n_right = 0
    for _ in range(10):
        pred = model.module(x).argmax(1)
        n_right += (pred == y).sum().item()
        if python_loop:
            confusion(pred.tolist(), y.tolist())
    model.train()
    return n_right


def confusion(pred, truth):
    table = [[0] * 100 for _ in range(100)]
    for _ in range(10_000 if cuda else 100):  # bootstrap
        for p, t in zip(pred, truth):
            table[t][p] += 1
    return table


def main():
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    dev = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(dev)
    logging.basicConfig(filename=os.path.join(out_dir(), f"train.{rank}.log"), level=logging.INFO)
    model = DDP(net(256 if cuda else 8).to(dev))
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    schedule = Schedule(opt)
    b = 128 if cuda else 8
    x = torch.randn(b, 3, 32, 32, device=dev)
    y = torch.randint(0, 100, (b,), device=dev)
    big = torch.randn(b, 3, 48, 48, device=dev)
    mode = opts.mode
    pace = Pace(
        spell=60 if mode == "spell" else None,
        from_start=mode in ("tenth", "eval"),
        healthy=mode in ("shapes", "evalok"),
    )
    while pace.running():
        images = big if mode == "shapes" and pace.step % 2 else x
        if mode == "spell" and rank == 1 and pace.late():
            reread_labels()
        if mode == "tenth" and rank == 0 and pace.step % 10 == 0:
            log_image_statistics(images)
        with torch.autocast(dev.type, dtype=torch.bfloat16, enabled=cuda):
            loss = nn.functional.cross_entropy(model(images), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if mode in ("spell", "schedule", "tenth") or pace.step % 10 == 0:
            value = loss.item()
            if mode == "schedule":
                schedule.step(value, 8000 if pace.late() else 1)
            if pace.step % 10 == 0:
                logging.info("step %d loss %.4f", pace.step, value)
        if mode in ("eval", "evalok") and pace.step % 100 == 99:
            evaluate(model, x, y, python_loop=(mode == "eval" and rank == 0))
    pace.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
