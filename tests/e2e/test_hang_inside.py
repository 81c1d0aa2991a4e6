"""Hangs caused inside one process: the verdict names the blocking threads or the blocking child."""

import json
import subprocess
import sys
import unittest

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

FIFO = """
import os
os.mkfifo("pipe")

def load():
    with open("pipe") as file:
        return file.read()

load()
"""

PROMPT = """
def confirm():
    return input("overwrite? ")

confirm()
"""

READS_INPUT = """
import subprocess

def prepare():
    subprocess.run(["cat"], check=True)

prepare()
"""

PRODUCERS = """
import multiprocessing as mp, sys, time

def produce(queue, n):
    time.sleep(1.5)
    queue.put(n)
    sys.exit(3 * n)

def consume(queue):
    for _ in range(3):
        queue.get()

if __name__ == "__main__":
    queue = mp.get_context("fork").Queue()
    producers = [mp.get_context("fork").Process(target=produce, args=(queue, n)) for n in range(2)]
    [p.start() for p in producers]
    consume(queue)
"""

OWN = """
import threading
lock = threading.Lock()

def load(key):
    return get(key - 1)

def get(key):
    with lock:
        return load(key) if key else 0

get(3)
"""
HELD = """
import queue, threading, time
lock, work = threading.Lock(), queue.Queue()

def save_all():
    with lock:
        work.get()

threading.Thread(target=save_all, name="saver", daemon=True).start()
time.sleep(0.3)

def train():
    with lock:
        pass

train()
"""

RAISES = """
import threading

def save():
    raise OSError("no space")

saver = threading.Thread(target=save, name="saver")
saver.start()
saver.join()
"""

REPEATED = """
import signal, threading, time
lock = threading.Lock()
def show(number, frame):
    with lock:
        print("shown")
def update():
    with lock:
        time.sleep(60)
signal.signal(signal.SIGALRM, show)
signal.setitimer(signal.ITIMER_REAL, 0.3, 0.3)
update()
"""
# The main thread waits for a thread that wants the lock of the main thread.
JOINED = """
import threading
lock = threading.Lock()
def save():
    with lock:
        pass
def finish(thread):
    with lock:
        thread.start()
        thread.join()
finish(threading.Thread(target=save, name="saver"))
"""
# What a library does beside the program: an event loop in a thread, as dask's client has one, and a monitor.
BEATS = """
import asyncio, threading, time
def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
async def beat():
    while True:
        work(0.0005)
        await asyncio.sleep(0.01)
def monitor():
    while True:
        work(0.0002)
        time.sleep(0.05)
threading.Thread(target=asyncio.run, args=(beat(),), daemon=True).start()
threading.Thread(target=monitor, daemon=True).start()
"""
WAITS_BESIDE_BEATS = """
import threading, beats
def wait_for_answer():
    threading.Event().wait()
wait_for_answer()
"""


class HangInside(xpurun_test.Case):
    def hang(self, script, timeout=2, **env):
        result = self.run_xpurun("--hang-timeout", timeout, "--on-hang", "kill", "--", PYTHON, "-c", script,
                                 env=self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", **env))
        verdict = self.verdict()
        detail = json.dumps(verdict, indent=1) + result.stderr
        self.assertEqual(result.returncode, 124, detail)
        self.assertEqual((verdict["kind"], verdict["ranks"], verdict["state"]), ("hang", [0], "stuck"), detail)
        return verdict, detail

    def found_hangs(self):
        stalls = self.manifest()["stalls"] if (self.out / "run.json").exists() else []
        return [s["verdict"] for s in stalls if s["verdict"]["kind"] == "hang"]

    def test_the_thread_that_holds_the_gil_in_c(self):
        verdict, detail = self.hang(GIL)
        self.assertEqual(verdict["where"]["function"], "hold", detail)
        self.assertRegex(verdict["sentence"], r"has not run Python for \d+ s: thread \d+ \(poller\) holds the GIL in "
                                              r"\S*sleep \(\S+\), called by hold \(<string>:6")

    def test_a_fifo_that_nobody_writes(self):
        verdict, detail = self.hang(FIFO)
        self.assertRegex(verdict["sentence"], r"in load \(<string>:6: (open )?\S*pipe\) for \d+ s; no process has "
                                              r"opened the other end of this FIFO", detail)
        self.assertRegex(verdict["next_command"], r"^fuser -v \S*pipe$", detail)

    def test_the_producers_of_a_queue_have_ended(self):
        verdict, detail = self.hang(PRODUCERS)
        self.assertRegex(verdict["sentence"], r"for a queue in .*; all 2 processes that it had started have "
                                              r"ended: (pid \d+ called sys\.exit\([03]\) at "
                                              r"<string>:\d+ \(in \w+\)(, |$)){2}", detail)

    @unittest.skipIf(sys.version_info < (3, 11), "the holder is known from CPython 3.11 on")
    def test_the_thread_that_holds_the_lock(self):
        verdict, detail = self.hang(HELD)
        self.assertRegex(verdict["sentence"], r"for a lock in train .*: thread \d+ \(\w+\) holds the lock, in "
                                              r"save_all \(<string>:7", detail)

    @unittest.skipIf(sys.version_info < (3, 11), "the holder is known from CPython 3.11 on")
    def test_a_lock_that_the_thread_holds_itself(self):
        verdict, detail = self.hang(OWN)
        self.assertRegex(verdict["sentence"], r"for a lock in get .*: it waits for a lock that it holds itself", detail)
        self.assertIn("RLock", verdict["next_text"], detail)

    @unittest.skipIf(sys.version_info < (3, 11), "the holder is known from CPython 3.11 on")
    def test_a_thread_that_is_joined_under_the_lock_that_it_wants(self):
        verdict, detail = self.hang(JOINED)
        self.assertEqual(verdict["level"], "confirmed", detail)
        self.assertRegex(verdict["sentence"], r"waiting for a thread in finish \(<string>:10: Thread\.join\) for "
                                              r"\d+ s: deadlock: thread \d+ \(saver\) waits in save \(<string>:5.*\) "
                                              r"for a lock that thread \d+ \(MainThread\) holds", detail)
        self.assertLess(self.manifest()["stalls"][0]["verdict_s"], 6, detail)  # at once, not after three timeouts

    @unittest.skipIf(sys.version_info < (3, 11), "the holder is known from CPython 3.11 on")
    def test_a_signal_that_comes_again_while_its_handler_waits(self):
        verdict, detail = self.hang(REPEATED)
        self.assertRegex(verdict["sentence"], r"for a lock in show .*, in a signal handler that has interrupted "
                                              r"update .*: it waits for a lock that it holds itself", detail)
        self.assertIn("take no lock in a signal handler", verdict["next_text"], detail)

    def test_heartbeats_of_a_library_are_no_progress(self):
        library = self.dir / "site-packages"
        library.mkdir()
        (library / "beats.py").write_text(BEATS)
        verdict, detail = self.hang(WAITS_BESIDE_BEATS, timeout=1, PYTHONPATH=str(library))
        self.assertEqual(verdict["level"], "confirmed", detail)
        self.assertRegex(verdict["sentence"], r"in wait_for_answer \(<string>:4: Event\.wait\) for \d+ s", detail)

    def test_a_prompt_and_a_program_that_read_the_standard_input(self):
        """What nobody answers may rightly wait for a person, so these are stalls at most."""
        for job, words in ((PROMPT, r"waiting for a line on its standard input in confirm \(job\.py:3: input"),
                           (READS_INPUT, r"its child process cat \(pid \d+\) has waited for its standard input for")):
            with self.subTest(words):
                self.out = self.dir / str(len(job))
                script = self.dir / "job.py"
                script.write_text(job)
                run = self.start_xpurun("--hang-timeout", 2, "--hang-idle", "--", PYTHON, script,
                                        env=self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1"), stdin=subprocess.PIPE)
                found = self.wait_for(self.found_hangs, "verdict", 30)
                self.assertRegex(found[0]["sentence"], words)
                run.stdin.close()
                run.wait(30)

    def test_a_thread_that_had_raised_in_a_job_that_ended_well(self):
        result = self.run_xpurun("--", PYTHON, "-c", RAISES, env=self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1"))
        self.assertEqual((result.returncode, self.verdict()["id"]), (0, "none.thread_raised"), result.stderr)
        self.assertRegex(result.stderr, r"but thread saver of rank 0 raised OSError: no space at <string>:5 ")

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
