"""All ranks compile for a long time before the first step."""

import ranks
import sys
import time

SECONDS = float(sys.argv[1])

def compute(seconds):
    end = time.monotonic() + seconds
    x = 0
    while time.monotonic() < end:
        x += 1
    return x


compute(SECONDS)
ranks.step()
