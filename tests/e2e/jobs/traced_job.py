"""Starts two ranks, each of which calls functions that the test names. Without torch."""

import os
import subprocess
import sys
import threading
import time

import traced_module


class Trainer:
    def step(self, i):
        return [traced_module.load(i), traced_module.Model.build().forward(i), list(traced_module.numbers(2))]


def main():
    trainer = Trainer()
    for i in range(10):
        trainer.step(i)
    thread = threading.Thread(target=traced_module.load, args=(0,), name="feeder")
    thread.start()
    thread.join()
    for i in range(5000):
        traced_module.tiny(i)
    try:
        traced_module.fails()
    except ValueError as e:
        print("caught", e, traced_module.count_down(3))
    time.sleep(0.01)


if "RANK" in os.environ:
    main()
else:
    ranks = []
    for rank in "01":
        env = {**os.environ, "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2"}
        ranks.append(subprocess.Popen([sys.executable, __file__], env=env))
    sys.exit(max(rank.wait() for rank in ranks))
