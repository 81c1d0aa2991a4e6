"""Waits for the answer of a worker process."""

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
    answers = multiprocessing.Queue()
    worker = multiprocessing.Process(target=lambda: answers.put(compute(SECONDS)))
    worker.start()
    answers.get()
    worker.join()
