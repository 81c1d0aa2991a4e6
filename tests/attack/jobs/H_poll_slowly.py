"""Looks for a file now and then, with pauses that are long compared to the timeout."""

import sys
import time

SECONDS = float(sys.argv[1])


def wait_for_file():
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        time.sleep(SECONDS / 8)


wait_for_file()
