"""Retries with growing pauses."""

import sys
import time

SECONDS = float(sys.argv[1])

pause, end = 0.1, time.monotonic() + SECONDS
while time.monotonic() < end:
    time.sleep(pause)
    pause = min(pause * 2, SECONDS / 5)
