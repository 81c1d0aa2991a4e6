"""Ranks that end one after the other."""

import os
import sys
import time

SECONDS = float(sys.argv[1])

def compute(seconds):
    end = time.monotonic() + seconds
    x = 0
    while time.monotonic() < end:
        x += 1
    return x


compute(SECONDS * (1 + int(os.environ["RANK"])) / 4)
