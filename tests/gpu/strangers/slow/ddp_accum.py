"""Text classifier: DDP, gradient accumulation with no_sync, tokens made on the fly by a regex tokenizer."""

import contextlib
import os
import random
import re

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from pace import Pace

ACCUM = 4
WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?|[0-9]+|[^\sA-Za-z0-9]")
VOCAB = 32768


def make_text(n):
    rng = random.Random(0)
    return " ".join(
        rng.choice(["the", "model's", "loss", "fell", "3.14", "to", "zero,", "again!", "(why?)", "x2"])
        for _ in range(n)
    )


def tokenize(text, rounds):
    ids = []
    for _ in range(rounds):
        ids = [hash(m.group(0).lower()) % VOCAB for m in WORD.finditer(text)]
    return ids


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank = dist.get_rank()
    dev = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if torch.cuda.is_available() else "cpu")
    if dev.type == "cuda":
        torch.cuda.set_device(dev)
    width = 2048 if dev.type == "cuda" else 128
    net = nn.Sequential(
        nn.Embedding(VOCAB, width),
        *[nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(12)],
        nn.Linear(width, 8),
    ).to(dev)
    net = DDP(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    torch.set_float32_matmul_precision("high")
    text = make_text(2000)
    pace = Pace()
    running = 0.0
    while pace.running():
        for micro in range(ACCUM):
            rounds = 6 if (rank == 0 and pace.late()) else 1  # rank 0's shard is raw crawl, the others' is cleaned
            ids = tokenize(text, rounds)[:2048]
            x = torch.tensor(ids, device=dev).view(1, -1).repeat(2, 1)
            y = x % 8
            last = micro == ACCUM - 1
            with contextlib.nullcontext() if last else net.no_sync():
                out = net(x)
                loss = nn.functional.cross_entropy(out.flatten(0, 1), y.flatten()) / ACCUM
                loss.backward()
            running += loss.detach()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        if pace.step % 10 == 9:
            if rank == 0:
                print("step", pace.step, "loss", float(running) / 10, flush=True)
            running = 0.0
    pace.close()
    dist.destroy_process_group()


main()
