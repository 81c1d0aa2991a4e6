"""Rank 0 writes a checkpoint with torch.save()."""

import ranks
import sys
import time
import torch

SECONDS = float(sys.argv[1])


def write_checkpoint(path):
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with open(path, "wb") as f:
            torch.save(torch.zeros(1 << 20), f)
        time.sleep(0.05)


if ranks.RANK == 0:
    write_checkpoint(ranks.SCRATCH + "/checkpoint")
ranks.dist.barrier()
