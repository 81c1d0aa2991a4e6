"""Rank 1 waits for a program that works in bursts and pauses for most of the timeout; the others wait for rank 1."""

import ranks
import subprocess
import sys

SECONDS = float(sys.argv[1])

WORK = """
import sys, time
seconds = float(sys.argv[1])
for batch in range(5):
    time.sleep(0.2 * seconds)
    sum(range(3000000))
"""
if ranks.RANK == 1:
    subprocess.run([sys.executable, "-c", WORK, str(SECONDS)], check=True)
ranks.dist.barrier()
