"""A pool whose workers mostly wait for a network."""

import multiprocessing
import sys
import time

SECONDS = float(sys.argv[1])


def download(seconds):
    end = time.monotonic() + seconds
    blocks = 0
    while time.monotonic() < end:
        time.sleep(0.15)
        blocks += 1
    return blocks


if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        pool.map(download, [SECONDS, SECONDS])
