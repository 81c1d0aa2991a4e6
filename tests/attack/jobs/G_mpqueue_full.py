"""A full queue that nobody empties."""

import multiprocessing

queue = multiprocessing.Queue(1)
queue.put(0)
queue.put(1)
