"""Rank 0 evaluates in a pool."""

import multiprocessing
import ranks
import sys
import time

SECONDS = float(sys.argv[1])

def compute(seconds):
    end = time.monotonic() + seconds
    x = 0
    while time.monotonic() < end:
        x += 1
    return x


if ranks.RANK == 0:
    with multiprocessing.Pool(1) as pool:
        pool.map(compute, [SECONDS])
ranks.dist.barrier()
