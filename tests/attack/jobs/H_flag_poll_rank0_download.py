"""The other ranks poll for a file while rank 0 mostly waits for a network."""

import os
import ranks
import sys
import time

SECONDS = float(sys.argv[1])


def fetch(seconds):
    end = time.monotonic() + seconds
    blocks = 0
    while time.monotonic() < end:
        time.sleep(0.1)
        blocks += 1


path = ranks.SCRATCH + "/ready"
if ranks.RANK == 0:
    fetch(SECONDS)
    open(path, "w").close()
while not os.path.exists(path):
    time.sleep(0.2)
ranks.step()
