"""Starts two ranks that are the stages of a pipeline: one forward and one backward at a time (1F1B), over gloo.

usage: pipeline_job.py [marks]
With `marks`, the program tells its jobs itself. Stage 1 needs twice as long as stage 0.
"""

import contextlib
import os
import subprocess
import sys
import time

# Delays of a loaded machine are shorter than half of a forward pass.
STEPS, BATCHES, FORWARD_S = 4, 4, 0.06


def job(kind, micro_batch):
    return getattr(xpurun, kind)(micro_batch) if sys.argv[1:] == ["marks"] else contextlib.nullcontext()


class Stage:
    def __init__(self, rank):
        self.rank = rank
        self.seconds = FORWARD_S * (1 + rank)
        self.weight = torch.ones(4, requires_grad=True)
        self.optimizer = torch.optim.SGD([self.weight], lr=0.1)
        self.waiting = []
        self.sends = []

    def forward_one_chunk(self, x):
        time.sleep(self.seconds)
        return Slow.apply(x * self.weight, 2 * self.seconds)

    def backward_one_chunk(self, y, gradient):
        torch.autograd.backward(y, gradient)

    def forward(self, micro_batch):
        x = torch.ones(4)
        if self.rank == 1:
            dist.recv(x, 0)
        x.requires_grad_()
        with job("forward", micro_batch):
            y = self.forward_one_chunk(x)
        if self.rank == 0:
            self.send(y.detach(), 1)
        self.waiting.append((micro_batch, x, y))

    def send(self, tensor, rank):
        # A send that waits for its receiver would wait for a rank that sends, too.
        self.sends.append((dist.isend(tensor, rank), tensor))

    def backward(self):
        micro_batch, x, y = self.waiting.pop(0)
        gradient = torch.ones(4)
        if self.rank == 0:
            dist.recv(gradient, 1)
        with job("backward", micro_batch):
            self.backward_one_chunk(y, gradient)
        if self.rank == 1:
            self.send(x.grad, 0)

    def step(self):
        ahead = 1 - self.rank
        for i in range(BATCHES + ahead):
            if i < BATCHES:
                self.forward(i)
            if i >= ahead:
                self.backward()
        for work, _ in self.sends:
            work.wait()
        self.sends.clear()
        self.optimizer.step()


def main():
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method="file://" + os.environ["RENDEZVOUS"], rank=rank, world_size=2)
    stage = Stage(rank)
    for _ in range(STEPS):
        stage.step()
    print(rank, "done", flush=True)


if "RANK" in os.environ:
    import torch
    import torch.distributed as dist

    if sys.argv[1:] == ["marks"]:
        import xpurun

    class Slow(torch.autograd.Function):
        """Its backward takes as long as said."""

        @staticmethod
        def forward(context, x, seconds):
            context.seconds = seconds
            return x.clone()

        @staticmethod
        def backward(context, gradient):
            time.sleep(context.seconds)
            return gradient, None

    main()
else:
    ranks = []
    for number in "01":
        env = {**os.environ, "RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": "2"}
        ranks.append(subprocess.Popen([sys.executable, __file__, *sys.argv[1:]], env=env))
    sys.exit(max(rank.wait() for rank in ranks))
