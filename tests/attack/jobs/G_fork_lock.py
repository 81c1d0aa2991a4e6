"""A child inherits a lock that no thread of its own will release."""

import multiprocessing
import threading

lock = threading.Lock()
with lock:
    child = multiprocessing.get_context("fork").Process(target=lock.acquire)
    child.start()
    child.join()
