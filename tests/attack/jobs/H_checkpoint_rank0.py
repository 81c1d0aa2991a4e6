"""Rank 0 writes a checkpoint."""

import ranks
import sys
import time

SECONDS = float(sys.argv[1])


def write_checkpoint(path):
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with open(path, "wb") as f:
            f.write(bytes(8 << 20))
        time.sleep(0.05)


if ranks.RANK == 0:
    write_checkpoint(ranks.SCRATCH + "/checkpoint")
ranks.dist.barrier()
