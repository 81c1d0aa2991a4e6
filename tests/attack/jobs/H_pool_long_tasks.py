"""Each task of a pool waits for most of the timeout."""

import multiprocessing
import sys
import time

SECONDS = float(sys.argv[1])


def task(seconds):
    time.sleep(seconds)


if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        pool.map(task, [SECONDS / 3] * 6, chunksize=1)
