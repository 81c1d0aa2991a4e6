"""A lock that no thread releases, beside a thread and a process that only send heartbeats."""

import subprocess
import sys
import threading
import time

def beat():
    beats = 0
    while True:
        time.sleep(0.2)
        beats += 1


BEATS = """
import time
beats = 0
while True:
    time.sleep(0.2)
    beats += 1
"""
threading.Thread(target=beat, daemon=True).start()
subprocess.Popen([sys.executable, "-Sc", BEATS])
lock = threading.Lock()
lock.acquire()
lock.acquire()
