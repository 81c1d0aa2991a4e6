"""Ranks take turns with a lock of a file, each for most of the timeout."""

import fcntl
import os
import sys
import time

SECONDS = float(sys.argv[1])

with open(os.environ["XPURUN_JOB_SCRATCH"] + "/lock", "w") as lock:
    for _ in range(int(os.environ["RANK"]) % 2 + 1):
        fcntl.flock(lock, fcntl.LOCK_EX)
        time.sleep(SECONDS / 7)
        fcntl.flock(lock, fcntl.LOCK_UN)
        time.sleep(0.05)
