"""A child program fetches the data for rank 0, with little CPU time."""

import ranks
import subprocess
import sys

SECONDS = float(sys.argv[1])

FETCH = """
import sys, time
end, blocks = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end:
    time.sleep(0.1)
    blocks += 1
"""
if ranks.RANK == 0:
    subprocess.run([sys.executable, "-c", FETCH, str(SECONDS)], check=True)
ranks.dist.barrier()
