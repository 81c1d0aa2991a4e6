"""A training run with tensor, pipeline and data parallelism, as users write it: torch 1.13 to the newest, NCCL or gloo.

usage, under torchrun: train.py [--tensor 2] [--pipeline 2] [--steps N] [--fault NAME --guilty RANK --at STEP --dir DIR]

Ranks are numbered as Megatron does: tensor ranks are neighbours, pipeline stages are farthest apart. Each step runs all
micro-batches forward through the pipeline, then backward, sums gradients over the data group, clips their norm over the
world and shares the loss. A fault (faults.py) acts in step --at. Where ranks outnumber the GPUs, they share them.
"""

import argparse
import os
import pathlib
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

import faults
from shapes import SHAPES

RANK, WORLD, LOCAL = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
GPU = torch.cuda.is_available()
GPUS = torch.cuda.device_count()
DEVICE = torch.device("cuda", LOCAL % GPUS) if GPU else torch.device("cpu")
DTYPE = torch.bfloat16 if GPU else torch.float32
WORDS = 1000
LOG_EVERY = 10  # steps; the host waits for the GPU there, as loss.item() does in every training script


class Tokens(Dataset):
    """Sequences that every rank of a tensor group reads alike."""

    def __init__(self, length, seed):
        self.length, self.seed = length, seed

    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        faults.read_sample(index)
        generator = torch.Generator().manual_seed(self.seed * 7919 + index)
        return torch.randint(0, WORDS, (self.length + 1,), generator=generator)


class Groups:
    """The process groups of this rank."""

    def __init__(self, tensor, pipeline):
        data = WORLD // (tensor * pipeline)
        self.tensor_rank = RANK % tensor
        self.data_rank = RANK // tensor % data
        self.stage, self.stages = RANK // (tensor * data), pipeline
        self.data_size, self.tensor_size = data, tensor
        self.tensor = self.make([[t + tensor * (d + data * p) for t in range(tensor)]
                                 for p in range(pipeline) for d in range(data)])
        self.data = self.make([[t + tensor * (d + data * p) for d in range(data)]
                               for p in range(pipeline) for t in range(tensor)])
        self.pipeline = self.make([[t + tensor * (d + data * p) for p in range(pipeline)]
                                   for d in range(data) for t in range(tensor)])
        self.before, self.after = RANK - tensor * data, RANK + tensor * data
        self.last_stage = WORLD - 1  # the rank whose loss is printed

    @staticmethod
    def make(families):
        """new_group is a call of the whole world, whoever is in the group."""
        own = None
        for ranks in families:
            group = dist.new_group(ranks)
            if RANK in ranks:
                own = group
        return own

    def sum_over_tensor(self, x):
        dist.all_reduce(x, group=self.tensor)
        return x

    def send(self, x, to):
        dist.send(x, to, group=self.pipeline)

    def receive(self, x, source):
        dist.recv(x, source, group=self.pipeline)
        return x


class IntoParallel(torch.autograd.Function):
    """The same input for all tensor ranks: its gradient is their sum."""

    @staticmethod
    def forward(ctx, x, groups):
        ctx.groups = groups
        return x

    @staticmethod
    def backward(ctx, gradient):
        return ctx.groups.sum_over_tensor(gradient.contiguous()), None


class OutOfParallel(torch.autograd.Function):
    """The sum of the parts of all tensor ranks."""

    @staticmethod
    def forward(ctx, x, groups):
        return groups.sum_over_tensor(x.contiguous())

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Layer(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.groups, self.heads = groups, heads // groups.tensor_size
        part = width // groups.tensor_size
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * part), nn.Linear(part, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * part), nn.Linear(4 * part, width, bias=False)

    def attend(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if hasattr(nn.functional, "scaled_dot_product_attention"):
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            attended = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v
        return self.out(attended.transpose(1, 2).reshape(batch, length, -1))

    def forward(self, x):
        x = x + OutOfParallel.apply(self.attend(IntoParallel.apply(self.norm1(x), self.groups)), self.groups)
        y = IntoParallel.apply(self.norm2(x), self.groups)
        return x + OutOfParallel.apply(self.down(nn.functional.gelu(self.up(y))), self.groups)


class Stage(nn.Module):
    def __init__(self, shape, groups):
        super().__init__()
        width, heads, layers = shape[:3]
        self.first, self.last = groups.stage == 0, groups.stage == groups.stages - 1
        if self.first:
            self.embedding = nn.Embedding(WORDS, width)
        self.layers = nn.Sequential(*[Layer(width, heads, groups) for _ in range(layers)])
        if self.last:
            self.head = nn.Linear(width, WORDS)

    def forward(self, x, labels=None):
        x = self.layers(self.embedding(x) if self.first else x)
        if self.last:
            return nn.functional.cross_entropy(self.head(x).float().flatten(0, 1), labels.flatten())
        return x


class Trainer:
    def __init__(self, shape, tensor, pipeline):
        self.groups = Groups(tensor, pipeline)
        self.width, self.length, self.sequences, self.micro_batches = shape[0], *shape[3:]
        torch.manual_seed(self.groups.stage)
        self.model = Stage(shape, self.groups).to(DEVICE, DTYPE)
        self.parameters = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-4)
        self.batches = iter(DataLoader(Tokens(self.length, self.groups.data_rank), num_workers=1,
                                       batch_size=self.sequences * self.micro_batches))

    def next_batch(self):
        return next(self.batches).to(DEVICE).chunk(self.micro_batches)

    def forward(self, tokens):
        """Input and output of the stage, for the backward pass."""
        groups = self.groups
        if self.model.first:
            x = tokens[:, :-1]
        else:
            x = torch.empty(self.sequences, self.length, self.width, device=DEVICE, dtype=DTYPE)
            x = groups.receive(x, groups.before).requires_grad_()
        y = self.model(x, tokens[:, 1:])
        if not self.model.last:
            groups.send(y.detach(), groups.after)
        return x, y

    def backward(self, x, y):
        groups = self.groups
        if self.model.last:
            (y / self.micro_batches).backward()
        else:
            y.backward(groups.receive(torch.empty_like(y), groups.after))
        if not self.model.first:
            groups.send(x.grad, groups.before)

    def reduce_gradients(self):
        if self.groups.data_size == 1:
            return
        flat = torch.cat([p.grad.flatten() for p in self.parameters])
        dist.all_reduce(flat, group=self.groups.data)
        for p, part in zip(self.parameters, flat.split([p.numel() for p in self.parameters])):
            p.grad.copy_(part.view_as(p) / self.groups.data_size)

    def clip_gradients(self):
        square = sum(p.grad.float().square().sum() for p in self.parameters)
        dist.all_reduce(square)
        scale = torch.clamp(1 / (square.sqrt() + 1e-6), max=1.0)
        for p in self.parameters:
            p.grad.mul_(scale)

    def share_loss(self, loss):
        """Every rank gets the loss of the last stage."""
        dist.broadcast(loss, self.groups.last_stage)
        return loss

    def step(self):
        batch = self.next_batch()
        self.optimizer.zero_grad()
        done = [self.forward(tokens) for tokens in batch]
        for x, y in done:
            self.backward(x, y)
        self.reduce_gradients()
        self.clip_gradients()
        self.optimizer.step()
        return self.share_loss(done[-1][1].detach().float() if self.model.last else torch.zeros((), device=DEVICE))


def start():
    if GPU:
        if GPUS < WORLD:
            os.environ["NCCL_HOSTID"] = f"host-{LOCAL // GPUS}"  # NCCL refuses two ranks of one host on one GPU
        torch.cuda.set_device(DEVICE)
    torch.set_num_threads(1)
    dist.init_process_group("nccl" if GPU else "gloo")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tensor", type=int, default=2)
    parser.add_argument("--pipeline", type=int, default=2)
    parser.add_argument("--shape", choices=SHAPES, default="large" if GPU else "tiny")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--fault", default="none")
    parser.add_argument("--guilty", type=int, default=-1)
    parser.add_argument("--at", type=int, default=25)
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("."))
    args = parser.parse_args()
    start()
    shape, guilty = SHAPES[args.shape], RANK == args.guilty
    faults.prepare(args.fault, guilty, args.at * shape[4] * shape[5], args.dir)
    trainer = Trainer(shape, args.tensor, args.pipeline)
    ends = []
    for step in range(args.steps):
        if step == args.at and args.fault != "none":
            faults.begin(args.fault, trainer, guilty, args.dir)
        try:
            loss = trainer.step()
        except StopIteration:  # the data has ended
            break
        ends.append(time.time_ns())
        if step % LOG_EVERY == LOG_EVERY - 1:
            value = loss.item()
            if RANK == 0:
                print(f"step {step + 1} loss {value:.3f}", flush=True)
    dist.barrier()
    if args.fault == "none":
        (args.dir / f"ends-{RANK}.txt").write_text("\n".join(map(str, ends)), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
