"""Threads that mostly wait for a network."""

import concurrent.futures
import sys
import time

SECONDS = float(sys.argv[1])


def fetch(seconds):
    end = time.monotonic() + seconds
    blocks = 0
    while time.monotonic() < end:
        time.sleep(0.1)
        blocks += 1


with concurrent.futures.ThreadPoolExecutor(4) as executor:
    list(executor.map(fetch, [SECONDS] * 4))
