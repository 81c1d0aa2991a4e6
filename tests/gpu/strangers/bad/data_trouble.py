"""DDP training whose data loading goes wrong on one rank, in several ways."""

import argparse
import os
import socket
import tempfile
import threading
import time
import urllib.request

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from common_setup import setup, small_net

ap = argparse.ArgumentParser()
ap.add_argument("--kind", choices=["loop", "fifo", "http", "lock", "late"], required=True)
ap.add_argument("--rank", type=int, default=1)
args = ap.parse_args()


def pack_sequences(lengths, limit):
    packs, i = [], 0
    while i < len(lengths):
        room, pack = limit, []
        while i < len(lengths) and lengths[i] <= room:
            room -= lengths[i]
            pack.append(lengths[i])
            i += 1
        packs.append(pack[:1])  # a document longer than the limit never fits
        packs = packs[-10:]
    return packs


def read_shard_names(path):
    with open(path) as f:
        return f.read().split()


def fetch_config(url):
    return urllib.request.urlopen(url).read()


class Cache:
    def __init__(self):
        self.lock = threading.Lock()
        self.data = {}

    def get(self, key):
        with self.lock:
            if key not in self.data:
                self.data[key] = self.load(key)
            return self.data[key]

    def load(self, key):
        if key % 1000 == 999:
            return self.get(key - 1)  # takes the lock again
        return key


def preprocess_archive(path):
    t = time.time()
    while time.time() - t < 3000:  # a huge archive on a slow disk
        os.stat(path)
        time.sleep(0.01)


def next_batch(step, rank, width, device, state):
    bad = rank == args.rank and step == 200
    if args.kind == "loop":
        pack_sequences([100, 700, 3000 if bad else 900, 50], 2048)
    elif args.kind == "fifo" and bad:
        path = os.path.join(tempfile.mkdtemp(), "shards")
        os.mkfifo(path)
        read_shard_names(path)
    elif args.kind == "http" and bad:
        s = socket.socket()
        s.bind(("127.0.0.1", 0))
        s.listen(5)
        state["server"] = s  # accepts by backlog, never answers
        fetch_config("http://127.0.0.1:%d/config.json" % s.getsockname()[1])
    elif args.kind == "lock":
        state.setdefault("cache", Cache()).get(999 if bad else step)
    elif args.kind == "late" and bad:
        preprocess_archive("/tmp")
    return torch.randn(256, width, device=device)


def main():
    rank, world, device = setup(timeout_s=20 if args.kind == "late" else 1800)
    net, width = small_net(device)
    model = DDP(net)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    state = {}
    for step in range(2000):
        x = next_batch(step, rank, width, device, state)
        loss = (model(x) - x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            value = loss.item()
            if step % 100 == 0:
                print(rank, step, value, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
