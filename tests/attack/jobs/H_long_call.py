"""One call into C, 20 % longer than the timeout: suspected, not ended."""

import hashlib
import sys
import time

SECONDS = float(sys.argv[1]) / 2


def derive(rounds):
    start = time.monotonic()  # not CPU time: on a busy machine the call would last for several timeouts
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", int(rounds))
    return time.monotonic() - start


derive(SECONDS * 300000 / derive(300000))
