"""The process group of the jobs with several ranks: gloo, over a file."""

import datetime
import os

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
SCRATCH = os.environ["XPURUN_JOB_SCRATCH"]

torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{SCRATCH}/store", rank=RANK,
                        world_size=int(os.environ["WORLD_SIZE"]), timeout=datetime.timedelta(hours=1))


# A temporary would be freed by a thread of gloo, perhaps while Python ends.
ONES = torch.ones(1)


def step():
    dist.all_reduce(ONES)


for _ in range(3):
    step()
