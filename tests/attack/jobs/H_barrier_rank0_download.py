"""Rank 0 fetches the data while the others wait at a barrier."""

import ranks
import sys
import time

SECONDS = float(sys.argv[1])


def fetch(seconds):
    end = time.monotonic() + seconds
    blocks = 0
    while time.monotonic() < end:
        time.sleep(0.1)
        blocks += 1


if ranks.RANK == 0:
    fetch(SECONDS)
ranks.dist.barrier()
