"""What traced_job.py calls. Rank 1 is slow to load."""

import os
import time


def load(i):
    time.sleep(0.02 if os.environ["RANK"] == "1" else 0.002)
    return i


def tiny(i):
    return i


def numbers(n):
    yield from range(n)


def fails():
    load(1)
    raise ValueError("bad")


def count_down(n):
    time.sleep(0.001)
    return 0 if n == 0 else count_down(n - 1)


class Model:
    @classmethod
    def build(cls):
        return cls()

    def forward(self, i):
        time.sleep(0.001)
        return i
