"""Two threads take two locks in different orders."""

import threading
import time

a, b = threading.Lock(), threading.Lock()


def take(first, second):
    with first:
        time.sleep(0.3)
        with second:
            pass


threading.Thread(target=take, args=(a, b), daemon=True).start()
take(b, a)
