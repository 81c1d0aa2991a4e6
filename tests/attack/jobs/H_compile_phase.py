"""Compiles many functions."""

import sys
import time

SECONDS = float(sys.argv[1])

source = "\n".join(f"def f{n}(x): return x + {n}" for n in range(300))
end = time.monotonic() + SECONDS
while time.monotonic() < end:
    compile(source, "generated", "exec")
