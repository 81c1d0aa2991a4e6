"""A job whose first process makes itself rank 0, as Lightning's launcher does: own_launcher_job.py [second]."""

import os
import socket
import subprocess
import sys

import torch
import torch.distributed as dist


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def main():
    second = None
    if "LOCAL_RANK" not in os.environ:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), NODE_RANK="0", LOCAL_RANK="0",
                          WORLD_SIZE="2")
        second = subprocess.Popen([sys.executable, __file__, "second"], env={**os.environ, "LOCAL_RANK": "1"})
    dist.init_process_group("gloo", rank=int(os.environ["LOCAL_RANK"]), world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        model(torch.randn(32, 64)).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()
    return second.wait() if second else 0


if __name__ == "__main__":
    sys.exit(main())
