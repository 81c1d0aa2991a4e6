"""A future of a process pool."""

import concurrent.futures
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
    with concurrent.futures.ProcessPoolExecutor(1) as executor:
        executor.submit(compute, SECONDS).result()
