"""Waits for a file, looking once in a while."""

import os
import subprocess
import sys
import tempfile
import time

SECONDS = float(sys.argv[1])

path = os.path.join(tempfile.mkdtemp(), "done")
subprocess.Popen(["sh", "-c", 'sleep "$0"; : > "$1"', str(SECONDS), path], env={})
while not os.path.exists(path):
    time.sleep(0.2)
os.unlink(path)
os.rmdir(os.path.dirname(path))
