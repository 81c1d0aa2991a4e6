"""Ranks wait in select() for a pipe that rank 0 feeds once in most of the timeout."""

import os
import select
import sys
import time

SECONDS = float(sys.argv[1])
BEATS = 3
scratch, rank = os.environ["XPURUN_JOB_SCRATCH"], os.environ["RANK"]

if rank == "0":
    ends = []
    for n in "123":
        path = f"{scratch}/pipe-{n}"
        os.mkfifo(path + ".new")
        os.rename(path + ".new", path)
        ends.append(os.open(path, os.O_RDWR))
    for _ in range(BEATS):
        time.sleep(SECONDS / BEATS)
        for end in ends:
            os.write(end, b"x")
    time.sleep(0.5)
else:
    path = f"{scratch}/pipe-{rank}"
    while not os.path.exists(path):
        time.sleep(0.05)
    pipe = os.open(path, os.O_RDONLY)
    for _ in range(BEATS):
        select.select([pipe], [], [])
        os.read(pipe, 1)
