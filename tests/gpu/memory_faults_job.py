"""A training loop of two ranks, the second of which has one fault of its memory after the other:
memory_faults_job.py DIR [ddp|fsdp [LAYERS]].

DIR/phase names the fault, and the loop writes DIR/at-RANK when it has made ten steps with it. DIR/own-RANK.json: what
the loop itself counts of parameters, gradients and optimizer, the bytes that PyTorch has allocated, and the times of
the steps by fault. "end" ends.
"""

import json
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

DIR = pathlib.Path(sys.argv[1])
MIB = 1 << 20
KIND = sys.argv[2] if len(sys.argv) > 2 else "ddp"
LAYERS = int(sys.argv[3]) if len(sys.argv) > 3 else 8  # of 50 million parameters each
SIZE = 2048


class Loop:
    def __init__(self, rank):
        layers = [nn.TransformerEncoderLayer(SIZE, 16, 4 * SIZE, batch_first=True) for _ in range(LAYERS)]
        self.model = nn.Sequential(*layers).cuda()
        if KIND == "fsdp":
            for layer in self.model:
                fully_shard(layer)
            fully_shard(self.model)
        else:
            self.model = nn.parallel.DistributedDataParallel(self.model, device_ids=[rank])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5)
        self.clear()

    def clear(self):
        self.outputs, self.losses, self.cache, self.pinned, self.shared = [], [], {}, [], []
        self.total, self.scratch, self.holes, self.texts, self.second = 0, None, [], [], None
        torch.cuda.empty_cache()

    def step(self, fault, number):
        output = self.model(torch.randn(2, 64, SIZE, device="cuda"))
        loss = output.square().mean()
        getattr(self, fault, lambda *_: None)(output, loss, number)
        loss.backward(retain_graph=fault == "retained_graph")
        self.optimizer.step()
        self.optimizer.zero_grad()

    def activations(self, output, loss, number):
        self.outputs.append(output * 2)

    def retained_graph(self, output, loss, number):
        self.total = self.total + loss * 1.0

    def list_of_losses(self, output, loss, number):
        self.losses.append(torch.zeros(MIB // 4, device="cuda") + loss.detach())

    def cache_of_tensors(self, output, loss, number):
        self.cache[number] = output.detach().clone()

    def growing_workspace(self, output, loss, number):
        self.scratch = torch.empty((number % 1000) * 4 * MIB, dtype=torch.uint8, device="cuda")

    def fragmentation(self, output, loss, number):
        if not self.holes:
            blocks = [torch.empty(24 * MIB, dtype=torch.uint8, device="cuda") for _ in range(100)]
            self.holes = blocks[::2]

    def pinned_leak(self, output, loss, number):
        self.pinned.append(torch.empty(8 * MIB, dtype=torch.uint8).pin_memory())

    def shared_leak(self, output, loss, number):
        self.shared.append(torch.empty(8 * MIB, dtype=torch.uint8).share_memory_())

    def optimizer_twice(self, output, loss, number):
        if self.second is None:
            self.second = torch.optim.Adam([torch.nn.Parameter(torch.zeros(16 * MIB, device="cuda"))])
            for group in self.second.param_groups:
                for param in group["params"]:
                    param.grad = torch.zeros_like(param)
            self.second.step()

    def python_objects(self, output, loss, number):
        for index in range(2000):
            self.texts.append("a text of its own %d %d" % (number, index))

    def own(self):
        params = list(self.model.parameters())
        state = [t for s in self.optimizer.state.values() for t in s.values() if torch.is_tensor(t) and t.is_cuda]
        local = lambda tensor: tensor.to_local() if hasattr(tensor, "to_local") else tensor
        size = lambda tensors: sum(local(t).numel() * t.element_size() for t in tensors)
        return {"parameters": size(params), "optimizer": size(state), "allocated": torch.cuda.memory_allocated()}


def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank)
    loop, phase, since, times, number = Loop(rank), "", 0, {}, 0
    while True:
        wanted = (DIR / "phase").read_text().split("\n")[0]
        agreed = torch.tensor([hash_of(wanted)], device="cuda")
        dist.broadcast(agreed, 0)
        if hash_of(wanted) != int(agreed):  # the other rank has not read it yet
            names = [phase, *(DIR / "phases").read_text().split()]
            wanted = next(name for name in names if hash_of(name) == int(agreed))
        if wanted != phase:
            loop.clear()
            phase, since = wanted, number
        if phase == "end":
            break
        begin = time.monotonic_ns()
        loop.step(phase if rank == 1 else "", number)
        torch.cuda.synchronize()
        times.setdefault(phase, []).append([begin, time.monotonic_ns() - begin])
        time.sleep(0.03)  # so that a fault does not fill the GPU
        number += 1
        if number - since == 10:
            (DIR / f"own-{rank}.new").write_text(json.dumps({**loop.own(), "times": times}))
            (DIR / f"own-{rank}.new").replace(DIR / f"own-{rank}.json")
            (DIR / f"at-{rank}").write_text(phase)
    dist.destroy_process_group()


def hash_of(name):
    return sum(ord(c) * 31 ** i for i, c in enumerate(name)) % (1 << 31)


main()
