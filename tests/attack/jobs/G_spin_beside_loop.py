"""Rank 1 spins at one place, beside ranks that work in a loop of one line."""

import os
import time


def spin():
    while True:
        pass


if os.environ["RANK"] == "1":
    spin()
while True:
    time.sleep(0.02); sum(range(500))  # noqa: E702
