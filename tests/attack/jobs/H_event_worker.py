"""Waits for the event of a worker thread, whose steps take most of the timeout each."""

import sys
import threading
import time

SECONDS = float(sys.argv[1])


def work(done):
    for _ in range(3):
        time.sleep(SECONDS / 3)
        sum(range(1000000))
    done.set()


done = threading.Event()
threading.Thread(target=work, args=(done,)).start()
done.wait()
