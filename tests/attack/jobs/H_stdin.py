"""Reads records from a pipe that stays empty for a long time."""

import sys

for line in sys.stdin:
    print(line, end="")
