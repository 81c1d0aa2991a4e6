"""The other ranks poll for a file that rank 0 makes after some work."""

import os
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


path = ranks.SCRATCH + "/ready"
if ranks.RANK == 0:
    compute(SECONDS)
    open(path, "w").close()
while not os.path.exists(path):
    time.sleep(0.2)
ranks.step()
