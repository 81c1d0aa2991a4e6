"""Reads records from a pipe in which nothing comes for long."""

import sys

for line in sys.stdin:
    print(line, end="")
