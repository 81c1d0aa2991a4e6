"""Hangs whose reason lies in the kernel's data or in the interpreter: a full pipe, the command below a shell, a file
that nobody makes or removes, an event that nobody sets, an import without end, an exception that a future keeps."""

import json
import os
import socket

import xpurun_test
from lane import long
from xpurun_test import PYTHON

RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}

FULL_PIPE = """
import subprocess
def main():
    p = subprocess.Popen(["seq", "1", "10000000"], stdout=subprocess.PIPE)
    p.wait()
main()
"""

SENDS = """
import multiprocessing as mp
def produce(connection):
    connection.send(b"x" * 10000000)
if __name__ == "__main__":
    mine, its = mp.Pipe()
    p = mp.Process(target=produce, args=(its,))
    p.start()
    p.join()
"""

OWN_LOCK = """
import fcntl, subprocess, sys
def main():
    f = open(sys.argv[1], "w")
    fcntl.flock(f, fcntl.LOCK_EX)
    subprocess.run("flock %s true; true" % sys.argv[1], shell=True)
main()
"""

FLAGS = """
import os, sys, time
rank = int(os.environ["RANK"])
def sync():
    while not os.path.exists("%s/flag.%d" % (sys.argv[1], 1 - rank)):
        time.sleep(0.1)
sync()
"""

EVENT = """
import socket, threading
ready = threading.Event()
def load():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen()
    s.accept()
    ready.set()
def beat(done):
    done.wait()
threading.Thread(target=beat, args=(threading.Event(),), daemon=True).start()
threading.Thread(target=load, name="loader", daemon=True).start()
ready.wait()
"""

NOBODY = """
import threading
def main():
    threading.Event().wait()
main()
"""

KEPT = """
import concurrent.futures as cf, queue
q = queue.Queue()
def fill():
    q.put(1)
    raise ValueError("bad shard 7")
def main():
    pool = cf.ThreadPoolExecutor(1)
    pool.submit(fill)
    while True:
        q.get()
main()
"""

LOGGED = """
import logging, queue, threading
q = queue.Queue()
def load():
    try:
        raise ValueError("bad shard 7")
    except Exception:
        logging.exception("loader failed")
threading.Thread(target=load, name="loader").start()
q.get()
"""

TASK = """
import asyncio
async def fill(q):
    await q.put(1)
    raise ValueError("bad shard 7")
async def main():
    q = asyncio.Queue()
    task = asyncio.create_task(fill(q))
    while True:
        await q.get()
asyncio.run(main())
"""


MAKES = """
import os, sys, time
def acquire(path):
    while True:
        try:
            return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except OSError:
            time.sleep(0.05)
acquire(sys.argv[1])
"""

MAKES_DIRECTORY = """
import os, sys, time
def acquire(path):
    while True:
        try:
            return os.mkdir(path)
        except OSError:
            pass
        time.sleep(0.1)
acquire(sys.argv[1])
"""

WAITS_UNTIL_GONE = """
import os, sys, time
def build(path):
    while os.path.exists(path):
        time.sleep(0.1)
build(sys.argv[1])
"""

ASKS_FOR_LOCK = """
import fcntl, os, sys, threading, time
rank = int(os.environ["RANK"])
def train():
    f = open(sys.argv[1], "w")
    if rank == 0:
        fcntl.flock(f, fcntl.LOCK_EX)
        open(sys.argv[1] + ".held", "w").close()
        threading.Event().wait()
    while not os.path.exists(sys.argv[1] + ".held"):
        time.sleep(0.05)
    while True:
        try:
            return fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
train()
"""

# Rank 1 is in the function, rank 0 waits for it.
WITH_PEER = """
def work(rank, barrier):
    if rank == 1:
        %s()
    barrier.wait()
if __name__ == "__main__":
    import multiprocessing as mp
    barrier = mp.Barrier(2)
    ps = [mp.get_context("fork").Process(target=work, args=(rank, barrier)) for rank in range(2)]
    [p.start() for p in ps]
    [p.join() for p in ps]
"""

CONNECTS = """
import socket, sys, time
port = int(sys.argv[1])
def push():
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except Exception:
            pass
        %s
"""

NEEDS_IMPORT = """
import sys
sys.path.insert(0, sys.argv[1])
def load():
    import tables
load()
"""

TABLES = """
import threading
rows = []
def warm():
    from tables import rows
    rows.append(1)
t = threading.Thread(target=warm, name="warm")
t.start()
t.join()
"""

WAITS_FOR_IMPORT = """
import sys, threading
sys.path.insert(0, sys.argv[1])
def fetch():
    import remote
def main():
    threading.Thread(target=fetch, name="fetcher", daemon=True).start()
    while "remote" not in sys.modules:
        pass
    import remote
main()
"""

REMOTE = """
import socket
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen()
client = socket.create_connection(server.getsockname())
client.recv(1)
"""

POOL_RESULT = """
import multiprocessing as mp, queue
q = queue.Queue()
def load(i):
    if i == 2:
        raise ValueError("bad shard 2")
    return i
def main():
    with mp.get_context("fork").Pool(2) as pool:
        for i in range(4):
            pool.apply_async(load, (i,), callback=q.put)
        for i in range(4):
            q.get()
if __name__ == "__main__":
    main()
"""

POOL_MANAGER = """
import multiprocessing as mp
def load(q, i):
    if i == 2:
        raise ValueError("bad shard 2")
    q.put(i)
def main():
    manager = mp.get_context("fork").Manager()
    q = manager.Queue()
    with mp.get_context("fork").Pool(2) as pool:
        pool.starmap_async(load, [(q, i) for i in range(4)], chunksize=1)
        for i in range(4):
            q.get()
if __name__ == "__main__":
    main()
"""


CATCHES = """
config = {"epochs": 3}
def lookup(name):
    return config[name]
def wait_for_config():
    while True:
        try:
            return lookup("lr")
        except Exception:
            pass
""" + WITH_PEER % "wait_for_config"


# The handler has ended when the loop sleeps.
KEEPS_LAST = """
import time
def fetch(url):
    raise ConnectionError("503 for " + url)
def get(url):
    last = None
    while True:
        try:
            return fetch(url)
        except ConnectionError as error:
            last = error
        time.sleep(0.3)
get("shard-7")
"""

LOGS_MESSAGE = """
import logging, time
def fetch(url):
    raise ConnectionError("503 for " + url)
def get(url):
    while True:
        try:
            return fetch(url)
        except ConnectionError as error:
            logging.warning("again: %s", error)
        time.sleep(0.3)
get("shard-7")
"""

CLEANS_UP = """
import os, time
def parse(path):
    raise ValueError("no header in " + path)
def load(path):
    try:
        return parse(path)
    except ValueError:
        os.getppid()
        raise
def get(path):
    while True:
        try:
            return load(path)
        except ValueError:
            pass
        time.sleep(0.3)
get("shard-7")
"""


class HangReasons(xpurun_test.Case):
    def hang(self, text, *args, options=(), rank=True):
        script = self.dir / "train.py"
        script.write_text(text)
        result = self.run_xpurun("--hang-timeout", 2, "--on-hang", "kill", "--grace", "1s", *options, "--", PYTHON,
                                 script, *args, env=self.env(**(RANK if rank else {})))
        verdict = self.verdict()
        detail = json.dumps(verdict, indent=1) + result.stderr
        self.assertEqual((result.returncode, verdict["kind"], verdict["level"]), (124, "hang", "confirmed"), detail)
        return verdict, detail

    def test_a_program_whose_pipe_is_full(self):
        verdict, detail = self.hang(FULL_PIPE)
        self.assertRegex(verdict["sentence"], r"in main \(train\.py:5: Popen\.wait\) for \d+ s: its child seq \(pid "
                                              r"\d+\) cannot write to a full pipe, and the rank does not read", detail)
        self.assertIn("communicate()", verdict["next_text"], detail)

    def test_a_connection_that_nobody_reads(self):
        verdict, detail = self.hang(SENDS, rank=False)
        self.assertRegex(verdict["sentence"], r"in produce \(train\.py:4: \S+\.send\) for \d+ s: it cannot write to a "
                                              r"full pipe while its parent \(pid \d+\) waits for its end in <module> "
                                              r"\(train\.py:9: BaseProcess\.join\) and does not read", detail)

    def test_a_command_below_a_shell_that_waits_for_a_lock_of_the_rank(self):
        verdict, detail = self.hang(OWN_LOCK, self.dir / "data.lock")
        self.assertRegex(verdict["sentence"], r"its child process flock \(pid \d+\), which sh \(pid \d+\) has started, "
                                              r"has made no progress for \d+ s: it waits for the lock on data\.lock "
                                              r"that the rank itself holds", detail)

    def test_ranks_that_look_for_files_of_each_other(self):
        script = self.dir / "train.py"
        script.write_text(FLAGS)
        launcher = self.dir / "launch.sh"
        launcher.write_text("for r in 0 1; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 %s %s %s & done; wait\n" %
                            (PYTHON, script, self.dir))
        result = self.run_xpurun("--hang-timeout", 3, "--on-hang", "kill", "--grace", "1s", "--", "sh", launcher)
        verdict = self.verdict()
        detail = json.dumps(verdict, indent=1) + result.stderr
        self.assertEqual((result.returncode, verdict["level"], verdict["ranks"]), (124, "confirmed", [0, 1]), detail)
        self.assertRegex(verdict["sentence"], r"ranks 0-1 have looked for files of each other for \d+ s, none of which "
                                              r"exists: rank 0 in sync \(train\.py:6: time\.sleep\) for flag\.1, rank "
                                              r"1 in sync \(train\.py:6: time\.sleep\) for flag\.0", detail)

    def test_an_event_and_the_thread_that_knows_it(self):
        verdict, detail = self.hang(EVENT)
        self.assertRegex(verdict["sentence"], r"for \d+ s; its thread \d+ \(loader\), which has that event too, is in "
                                              r"load \(train\.py:8: \S*accept\); its thread \d+ ", detail)

    def test_an_event_that_nobody_is_left_to_set(self):
        verdict, detail = self.hang(NOBODY)
        self.assertRegex(verdict["sentence"], r"in main \(train\.py:4: Event\.wait\) for \d+ s; no other thread of the "
                                              r"process is left that could end this wait", detail)

    def test_exceptions_that_were_caught(self):
        for text, words in ((KEPT, r"; before, a task in its thread ThreadPoolExecutor-0_0 raised ValueError: bad "
                                   r"shard 7 at train\.py:6 \(in fill\), which only the future knows"),
                            (LOGGED, r"; before, its thread loader raised ValueError: bad shard 7 at train\.py:6 \(in "
                                     r"load\) and went on")):
            with self.subTest(words):
                self.out = self.dir / str(len(text))
                verdict, detail = self.hang(text)
                self.assertRegex(verdict["sentence"], words, detail)

    def test_a_file_in_the_way(self):
        """A lock file of a job that was killed."""
        for text, place in ((MAKES, "time.sleep"), (MAKES_DIRECTORY, "time.sleep")):
            with self.subTest(place):
                self.out = self.dir / str(len(text))
                lock = self.dir / ("cache%d.lock" % len(text))
                lock.mkdir() if text == MAKES_DIRECTORY else lock.write_text("")
                os.utime(lock, (1700000000, 1700000000))
                verdict, detail = self.hang(text, lock, options=("--hang-idle",))
                self.assertRegex(verdict["sentence"], r"in acquire \(train\.py:\d+: time\.sleep\) for \d+ s.*; it "
                                                      r"tries again and again to make \S*/cache\d+\.lock, which "
                                                      r"exists since before the job began; no process of this host "
                                                      r"has the file open", detail)
                self.assertRegex(verdict["next_text"], r"^remove cache\d+\.lock if ", detail)

    def test_a_file_that_nobody_removes(self):
        lock = self.dir / "build_lock"
        with open(lock, "w"):
            verdict, detail = self.hang(WAITS_UNTIL_GONE, lock, options=("--hang-idle",))
        self.assertRegex(verdict["sentence"], r"in build \(train\.py:5: time\.sleep\) for \d+ s; it asks again and "
                                              r"again for \S*/build_lock, which exists.*; pid \d+( \(\S+\))? has the "
                                              r"file open", detail)
        self.assertIn("should remove or change build_lock", verdict["next_text"], detail)

    def test_a_lock_that_a_loop_asks_for(self):
        script = self.dir / "train.py"
        script.write_text(ASKS_FOR_LOCK)
        launcher = self.dir / "launch.sh"
        launcher.write_text("for r in 0 1; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 %s %s %s & done; wait\n" %
                            (PYTHON, script, self.dir / "data.lock"))
        result = self.run_xpurun("--hang-timeout", 3, "--on-hang", "kill", "--grace", "1s", "--", "sh", launcher)
        verdict = self.verdict()
        detail = json.dumps(verdict, indent=1) + result.stderr
        self.assertEqual((result.returncode, verdict["level"], verdict["ranks"]), (124, "confirmed", [0]), detail)
        self.assertRegex(verdict["sentence"], r"rank 0 holds the lock on data\.lock in train \(train\.py:9: Event\.wait"
                                              r"\); rank 1 has waited for the lock in train ", detail)

    def test_a_loop_that_connects_in_vain(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            for pause, options in (("time.sleep(0.1)", ()), ("pass", ("--busy-timeouts", 1))):
                with self.subTest(pause):
                    self.out = self.dir / str(len(pause))
                    verdict, detail = self.hang(CONNECTS % pause + WITH_PEER % "push", port, options=options,
                                                rank=False)
                    self.assertRegex(verdict["sentence"], r"in push \(train\.py:\d+(: \S+)?\) for \d+ s.*; it tries "
                                                          r"to connect to 127\.0\.0\.1:%d again and again, without "
                                                          r"success" % port, detail)
                    self.assertIn("takes connections at 127.0.0.1:%d" % port, verdict["next_text"], detail)

    @long  # looks at the loop hundreds of times, for which the rank needs a CPU within 1.5 s
    def test_a_loop_that_catches_an_exception_again_and_again(self):
        verdict, detail = self.hang(CATCHES, options=("--busy-timeouts", 1), rank=False)
        self.assertRegex(verdict["sentence"], r"busy in (wait_for_config|lookup) \(train\.py:\d+(: \S+)?\) for \d+ s "
                                              r"while handling KeyError: 'lr' at train\.py:4 \(in lookup\)", detail)
        self.assertIn("find out why KeyError is raised", verdict["next_text"], detail)

    def check_caught(self, name, text, words, raised):
        self.out = self.dir / name
        verdict, detail = self.hang(text, options=("--hang-idle",))
        self.assertRegex(verdict["sentence"], r"in get \(train\.py:\d+: time\.sleep\) for \d+ s" + words, detail)
        self.assertIn("find out why %s is raised" % raised, verdict["next_text"], detail)

    def test_a_loop_that_sleeps_after_it_has_logged_an_exception(self):
        self.check_caught("logged", LOGS_MESSAGE, r"; before, its thread MainThread raised ConnectionError: 503 for "
                                                  r"shard-7 at train\.py:4 \(in fetch\) and went on",
                          "ConnectionError")

    @long  # follows one turn of the loop, for which the rank needs a CPU within about a second
    def test_a_loop_that_sleeps_after_it_has_caught_an_exception(self):
        for name, text, raised, words in (
                ("kept", KEEPS_LAST, "ConnectionError",
                 r"; its loop has caught ConnectionError: 503 for shard-7 at train\.py:4 \(in fetch\) in get "
                 r"\(train\.py:9\)"),
                ("cleanup", CLEANS_UP, "ValueError",
                 r"; its loop has caught ValueError: no header in shard-7 at train\.py:4 \(in parse\) in load "
                 r"\(train\.py:7\)")):
            with self.subTest(name):
                self.check_caught(name, text, words, raised)

    def test_an_import_that_does_not_end(self):
        for name, module, text, words in (
                ("tables", TABLES, NEEDS_IMPORT,
                 r"waiting for a thread in <module> \(tables\.py:9: Thread\.join\) for \d+ s; its thread \d+ "
                 r"\(warm\) waits in warm \(tables\.py:5: import\) for the end of the import of tables\.py, in "
                 r"which the rank waits"),
                ("remote", REMOTE, WAITS_FOR_IMPORT,
                 r"in main \(train\.py:10: import\) for \d+ s: thread \d+ \(fetcher\) is importing remote\.py, in "
                 r"<module> \(remote\.py:7: \S*recv")):
            with self.subTest(name):
                (self.dir / (name + ".py")).write_text(module)
                self.out = self.dir / name
                verdict, detail = self.hang(text, self.dir)
                self.assertRegex(verdict["sentence"], words, detail)
                self.assertIn("move that part of %s.py into a function" % name, verdict["next_text"], detail)

    def test_a_result_of_a_pool_that_nobody_asks_for(self):
        for name, text in (("threads", POOL_RESULT), ("manager", POOL_MANAGER)):
            with self.subTest(name):
                self.out = self.dir / name
                verdict, detail = self.hang(text)
                self.assertRegex(verdict["sentence"], r"in main \(train\.py:\d+: .*get\) for \d+ s; before, a task "
                                                      r"raised ValueError: bad shard 2 at train\.py:\d+ \(in load\), "
                                                      r"in a process of its pool, and nobody has asked for the result",
                                 detail)

    def test_a_task_that_has_raised(self):
        verdict, detail = self.hang(TASK, options=("--hang-idle",))
        self.assertRegex(verdict["sentence"], r"; its task Task-\d+ has raised ValueError in fill \(train\.py:5\)",
                         detail)
        self.assertIn("mend the exception of that task", verdict["next_text"], detail)


if __name__ == "__main__":
    xpurun_test.main()
