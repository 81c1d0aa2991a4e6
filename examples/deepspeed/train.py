#!/usr/bin/env python3
"""A small training job with DeepSpeed. `--hang RANK` makes one rank wait for a batch that never comes."""

import argparse
import time

import deepspeed
import torch


def load_batch(step, hangs):
    if hangs and step == 5:
        time.sleep(100_000)
    return torch.randn(16, 64), torch.randn(16, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--hang", type=int, default=-1, metavar="RANK")
    parser.add_argument("--local_rank", type=int, default=0)
    arguments = parser.parse_args()

    deepspeed.init_distributed("nccl" if torch.cuda.is_available() else "gloo")
    rank, size = deepspeed.comm.get_rank(), deepspeed.comm.get_world_size()
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.01),
                                      config={"train_batch_size": 16 * size, "train_micro_batch_size_per_gpu": 16})
    for step in range(arguments.steps):
        inputs, targets = load_batch(step, hangs=rank == arguments.hang)
        loss = torch.nn.functional.mse_loss(engine(inputs.to(engine.device)), targets.to(engine.device))
        engine.backward(loss)
        engine.step()
    if rank == 0:
        print(f"{size} ranks, {arguments.steps} steps, loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
