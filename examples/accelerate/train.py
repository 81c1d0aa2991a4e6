#!/usr/bin/env python3
"""A small training job with accelerate. `--hang RANK` makes one rank wait for a batch that never comes."""

import argparse
import time

import torch
from accelerate import Accelerator


def load_batch(step, hangs):
    if hangs and step == 5:
        time.sleep(100_000)
    return torch.randn(16, 64), torch.randn(16, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--hang", type=int, default=-1, metavar="RANK")
    arguments = parser.parse_args()

    accelerator = Accelerator()
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for step in range(arguments.steps):
        inputs, targets = load_batch(step, hangs=accelerator.process_index == arguments.hang)
        loss = torch.nn.functional.mse_loss(model(inputs.to(accelerator.device)), targets.to(accelerator.device))
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
    accelerator.print(f"{accelerator.num_processes} ranks, {arguments.steps} steps, loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
