"""A gloo job whose last rank leaves its routine once: --call instead of, or before, the all_reduce of the others."""

import argparse

import torch
import torch.distributed as dist

STEPS = 30


def train_step(tensor):
    dist.all_reduce(tensor)


def evaluate(call, tensor):
    if call == "all_gather":
        dist.all_gather([torch.empty_like(tensor) for _ in range(dist.get_world_size())], tensor)
    elif call == "broadcast":
        dist.broadcast(tensor, 0)
    elif call == "barrier":
        dist.barrier()
    elif call == "none":
        return
    else:
        dist.all_reduce(tensor)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--call", required=True)
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    last = dist.get_rank() == dist.get_world_size() - 1
    tensor = torch.ones(1024)
    for step in range(STEPS):
        if step == STEPS - 1 and last:
            evaluate(arguments.call, tensor)
        else:
            train_step(tensor)
    dist.barrier()


if __name__ == "__main__":
    main()
