"""A queue that no thread fills, beside a C thread that computes forever, like a thread that spins on a GPU."""

import hashlib
import queue
import threading

threading.Thread(target=lambda: hashlib.pbkdf2_hmac("sha256", b"x", b"y", 2**31 - 1), daemon=True).start()
queue.Queue().get()
