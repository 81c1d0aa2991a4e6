"""Many short programs, one after the other."""

import subprocess
import sys
import time

SECONDS = float(sys.argv[1])

end = time.monotonic() + SECONDS
while time.monotonic() < end:
    subprocess.run(["true"], check=True)
