"""Reads records from a pipe that stays empty for long."""

import sys

for line in sys.stdin:
    print(line, end="")
