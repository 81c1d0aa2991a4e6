"""Waits for a program that uses no CPU time."""

import subprocess
import sys

SECONDS = float(sys.argv[1])

subprocess.run(["sleep", str(SECONDS)], check=True)
