"""A child inherits a lock that none of the child's threads will release."""

import multiprocessing
import threading

lock = threading.Lock()
with lock:
    child = multiprocessing.get_context("fork").Process(target=lock.acquire)
    child.start()
    child.join()
