"""Two or more gloo ranks that call torch.distributed, and then stand still as --end says."""

import argparse
import time

import torch
import torch.distributed as dist


def train_step(tensor):
    dist.all_reduce(tensor)
    dist.broadcast(tensor, src=1)


def stand(rank, end, group):
    tensor = torch.ones(3)
    if end == "mismatch" and rank == 0:
        dist.reduce(tensor, dst=1, op=dist.ReduceOp.MAX, group=group)
    elif end == "mismatch":
        dist.broadcast(tensor, src=1, group=group)
        dist.barrier(group=group)
    elif end == "recv" and rank == 0:
        dist.recv(tensor, src=1)
    elif end == "sleep" and rank == 0:
        dist.all_reduce(tensor)
    time.sleep(1000)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--end", required=True)
    end = parser.parse_args().end
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    tensor = torch.ones(5)
    for _ in range(10):
        train_step(tensor)
    group = dist.new_group(list(range(dist.get_world_size())))
    objects = [None] * dist.get_world_size()
    dist.all_gather_object(objects, {"rank": rank}, group=group)
    stand(rank, end, group)


if __name__ == "__main__":
    main()
