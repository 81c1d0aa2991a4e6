"""Rank 0 evaluates by a program that prints nothing and computes in bursts, as if it loaded data; the others poll."""

import os
import subprocess
import sys
import time

SECONDS = float(sys.argv[1])

EVALUATE = """
import sys, time
seconds = float(sys.argv[1])
for _ in range(4):
    time.sleep(seconds / 5)
    end = time.monotonic() + seconds / 20
    while time.monotonic() < end:
        sum(range(10000))
"""
done = os.environ["XPURUN_JOB_SCRATCH"] + "/done"
if os.environ["RANK"] == "0":
    subprocess.run([sys.executable, "-c", EVALUATE, str(SECONDS)], check=True)
    open(done, "w").close()
while not os.path.exists(done):
    time.sleep(0.5)
