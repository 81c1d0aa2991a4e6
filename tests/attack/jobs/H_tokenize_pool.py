"""Rank 0 tokenises with a pool while the others wait at a barrier; every batch is one long call into C."""

import hashlib
import multiprocessing
import ranks
import sys
import time

SECONDS = float(sys.argv[1])


def derive(rounds):
    start = time.monotonic()
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", int(rounds))
    return time.monotonic() - start


def tokenize(batch):
    derive(PER_SECOND * SECONDS / 12)
    return batch


PER_SECOND = 300000 / derive(300000)
if ranks.RANK == 0:
    end = time.monotonic() + SECONDS
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for batch in pool.imap_unordered(tokenize, range(1000)):
            print("batch", batch, flush=True)
            if time.monotonic() > end:
                break
ranks.dist.barrier()
