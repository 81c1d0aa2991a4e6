"""Starts ranks like a launcher, without importing torch: launch.py RANKS JOB [ARGUMENTS]"""

import os
import subprocess
import sys
import tempfile

count, job = int(sys.argv[1]), sys.argv[2]
with tempfile.TemporaryDirectory() as scratch:
    ranks = [
        subprocess.Popen([sys.executable, job, *sys.argv[3:]],
                         env={**os.environ, "RANK": str(n), "LOCAL_RANK": str(n), "WORLD_SIZE": str(count),
                              "XPURUN_JOB_SCRATCH": scratch}) for n in range(count)
    ]
    statuses = [rank.wait() for rank in ranks]
sys.exit(max(map(abs, statuses)))
