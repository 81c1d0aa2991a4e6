"""The worker of a pool does not come back."""

import multiprocessing
import time

def read_sample(i):
    time.sleep(10000)


if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        pool.map(read_sample, [0])
