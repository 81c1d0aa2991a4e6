"""The main thread joins threads that make slow progress."""

import sys
import threading
import time

SECONDS = float(sys.argv[1])


def fetch(seconds):
    end = time.monotonic() + seconds
    blocks = 0
    while time.monotonic() < end:
        time.sleep(0.1)
        blocks += 1


threads = [threading.Thread(target=fetch, args=(SECONDS,)) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
