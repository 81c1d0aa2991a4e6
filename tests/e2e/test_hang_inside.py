"""Hangs caused inside one process: the verdict names the blocking threads or the blocking child."""

import json
import sys

import xpurun_test
from xpurun_test import PYTHON

GIL = """
import ctypes, threading, time
libc = ctypes.PyDLL(None)  # unlike CDLL it keeps the GIL

def hold():
    libc.sleep(1000)

threading.Thread(target=hold, name="poller", daemon=True).start()
while True:
    time.sleep(0.01)
"""

TWO_LOCKS = """
import threading
first, second, both = threading.Lock(), threading.Lock(), threading.Barrier(2)

def flush():
    with second:
        both.wait()
        first.acquire()

def save():
    with first:
        both.wait()
        second.acquire()

threading.Thread(target=flush, name="flusher", daemon=True).start()
save()
"""

FULL_PIPE = """
import subprocess, sys

def build():
    child = subprocess.Popen([sys.executable, "-c", "def fill():\\n  print('x' * 1000000)\\nfill()"],
                             stdout=subprocess.PIPE)
    child.wait()

build()
"""


class HangInside(xpurun_test.Case):
    def hang(self, script):
        result = self.run_xpurun("--hang-timeout", 2, "--on-hang", "kill", "--", PYTHON, "-c", script,
                                 env=self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1"))
        verdict = self.verdict()
        detail = json.dumps(verdict, indent=1) + result.stderr
        self.assertEqual(result.returncode, 124, detail)
        self.assertEqual((verdict["kind"], verdict["ranks"], verdict["state"]), ("hang", [0], "stuck"), detail)
        return verdict, detail

    def test_the_thread_that_holds_the_gil_in_c(self):
        verdict, detail = self.hang(GIL)
        self.assertEqual(verdict["where"]["function"], "hold", detail)
        self.assertRegex(verdict["sentence"], r"has not run Python for \d+ s: thread \d+ \(poller\) holds the GIL in "
                                              r"\S*sleep \(\S+\), called by hold \(<string>:6")

    def test_two_threads_that_wait_for_each_others_lock(self):
        verdict, detail = self.hang(TWO_LOCKS)
        self.assertEqual(verdict["id"], "hang.lock", detail)
        self.assertRegex(verdict["sentence"], r"thread \d+( \(\w+\))? waits for a lock in save \(<string>:13", detail)
        self.assertRegex(verdict["sentence"], r"thread \d+ \(flusher\) in flush \(<string>:8", detail)

    def test_a_child_whose_pipe_nobody_reads(self):
        verdict, detail = self.hang(FULL_PIPE)
        self.assertRegex(verdict["sentence"], r"build \(<string>:7", detail)
        self.assertIn("full pipe", verdict["sentence"], detail)
        self.assertIn("communicate()", verdict["next_text"], detail)


if __name__ == "__main__":
    sys.exit(xpurun_test.main())
