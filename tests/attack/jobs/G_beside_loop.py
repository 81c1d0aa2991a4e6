"""Rank 1 takes a lock twice, beside ranks that work in a loop of one line."""

import os
import threading
import time

if os.environ["RANK"] == "1":
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
while True:
    time.sleep(0.02); sum(range(500))  # noqa: E702
