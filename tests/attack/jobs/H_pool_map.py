"""Preprocesses in a pool; the main thread waits for the whole map."""

import multiprocessing
import sys
import time

SECONDS = float(sys.argv[1])

def compute(seconds):
    end = time.monotonic() + seconds
    x = 0
    while time.monotonic() < end:
        x += 1
    return x


if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        pool.map(compute, [SECONDS, SECONDS])
