"""One call into C, longer than the timeout by a fifth: suspected, and no more."""

import hashlib
import sys
import time

SECONDS = float(sys.argv[1]) / 2


def derive(rounds):
    start = time.thread_time()
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", int(rounds))
    return time.thread_time() - start


derive(SECONDS * 100000 / derive(100000))
