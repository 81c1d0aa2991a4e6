"""The training runs in a thread."""

import sys
import threading
import time

SECONDS = float(sys.argv[1])

def compute(seconds):
    end = time.monotonic() + seconds
    x = 0
    while time.monotonic() < end:
        x += 1
    return x


thread = threading.Thread(target=compute, args=(SECONDS,))
thread.start()
thread.join()
