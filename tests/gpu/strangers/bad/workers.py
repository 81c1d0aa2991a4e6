"""DataLoader workers that die or block on one rank."""

import argparse
import os
import signal
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from common_setup import setup, small_net

ap = argparse.ArgumentParser()
ap.add_argument("--kind", choices=["killed", "lock"], required=True)
ap.add_argument("--rank", type=int, default=0)
args = ap.parse_args()

audit_lock = threading.Lock()


def audit_forever():
    """writes an audit record; holds the lock nearly all of the time"""
    while True:
        with audit_lock:
            time.sleep(0.05)


class Records(Dataset):
    def __init__(self, width, bad):
        self.width, self.bad = width, bad

    def __len__(self):
        return 64 * 2000

    def __getitem__(self, i):
        if self.bad and i >= 64 * 150:
            if args.kind == "killed":
                self.decode(i)
            else:
                self.audit(i)
        return torch.full((self.width,), float(i % 13))

    def decode(self, i):
        if i == 64 * 150 + 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return i

    def audit(self, i):
        with audit_lock:  # copied by fork while the thread of the parent held it
            return i


def main():
    rank, world, device = setup()
    net, width = small_net(device)
    model = DDP(net)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    bad = rank == args.rank
    if bad and args.kind == "lock":
        threading.Thread(target=audit_forever, daemon=True).start()
        time.sleep(0.2)
    loader = DataLoader(Records(width, bad), batch_size=64, num_workers=2, multiprocessing_context="fork")
    for step, x in enumerate(loader):
        x = x.to(device)
        loss = (model(x) - x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            value = loss.item()
            if step % 50 == 0:
                print(rank, step, value, flush=True)
        time.sleep(0.01)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
