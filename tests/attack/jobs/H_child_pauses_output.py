"""Rank 1 collects the lines of a shell script that pauses between them; the others wait for rank 1."""

import ranks
import subprocess
import sys

SECONDS = float(sys.argv[1])

if ranks.RANK == 1:
    script = f"for i in 1 2 3 4 5 6; do sleep {SECONDS / 6}; echo $i; done"
    child = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
    assert len(child.communicate()[0].split()) == 6
ranks.dist.barrier()
