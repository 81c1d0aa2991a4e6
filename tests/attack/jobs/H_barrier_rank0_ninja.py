"""Rank 0 builds an extension while the others wait at a barrier."""

import ranks
import subprocess
import sys

SECONDS = float(sys.argv[1])

if ranks.RANK == 0:
    subprocess.run(["timeout", str(SECONDS), "sh", "-c", "while :; do :; done"], check=False)
ranks.dist.barrier()
