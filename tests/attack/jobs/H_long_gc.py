"""Collects a large heap again and again."""

import gc
import sys
import time

SECONDS = float(sys.argv[1])

heap = [[[]] for _ in range(500000)]
end = time.monotonic() + SECONDS
while time.monotonic() < end:
    gc.collect()
