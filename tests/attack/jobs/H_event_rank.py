"""Rank 2 only waits for an event while its threads would serve others; the others train and never stop."""

import os
import sys
import threading
import time

SECONDS = float(sys.argv[1])


def work(n):
    time.sleep(0.01)
    return n * 2


def train():
    end = time.monotonic() + SECONDS
    n = 0
    while time.monotonic() < end:
        n += 1
        work(n)


if os.environ["RANK"] == "2":
    threading.Event().wait(SECONDS)
else:
    train()
