"""Hangs whose reason is somebody else: who holds the lock, who died, who was forked, what the event loop waits for."""

import json
import subprocess
import sys
import unittest

import xpurun_test
from xpurun_test import PYTHON

RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}

FLOCK = """
import fcntl, os, sys, threading, time, multiprocessing as mp
def work(rank, barrier, path):
    f = open(path, "w")
    if rank != 0:
        time.sleep(0.5)
    fcntl.flock(f, fcntl.LOCK_EX)
    barrier.wait()
if __name__ == "__main__":
    b = mp.Barrier(2)
    ps = [mp.Process(target=work, args=(r, b, sys.argv[1])) for r in range(2)]
    [p.start() for p in ps]; [p.join() for p in ps]
"""

RECORD_LOCK = """
import fcntl, sys
def save():
    f = open(sys.argv[1], "r+")
    fcntl.lockf(f, fcntl.LOCK_EX)
save()
"""

HOLDER = """
import fcntl, sys, time
f = open(sys.argv[1], "w")
fcntl.lockf(f, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(1000)
"""

FORKED = """
import threading, time, multiprocessing as mp
lock = threading.Lock()
def writer():
    with lock:
        time.sleep(1000)
def emit():
    with lock:
        pass
def main():
    threading.Thread(target=writer, daemon=True).start()
    time.sleep(0.2)
    p = mp.get_context("fork").Process(target=emit)
    p.start(); p.join()
if __name__ == "__main__":
    main()
"""

POOL = """
import multiprocessing as mp, os, signal, time
def tokenize(i):
    if i == 5:
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
    return i
def main():
    with mp.get_context("fork").Pool(2) as p:
        p.map(tokenize, range(20), chunksize=1)
if __name__ == "__main__":
    main()
"""

INITIALIZER = """
import concurrent.futures as cf
def prepare():
    raise ValueError("no such table")
def main():
    with cf.ProcessPoolExecutor(2, initializer=prepare) as pool:
        list(pool.map(len, ["a", "b"]))
if __name__ == "__main__":
    main()
"""

POOL_INITIALIZER = """
import multiprocessing as mp
def prepare():
    raise ValueError("no such table")
def main():
    with mp.get_context("fork").Pool(2, initializer=prepare) as pool:
        pool.map(len, ["a", "b"])
if __name__ == "__main__":
    main()
"""

SERVER = """
import asyncio
async def main():
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    asyncio.get_running_loop().call_later(5, server.close)
    try:
        await server.serve_forever()
    except asyncio.CancelledError:
        pass
asyncio.run(main())
"""

QUEUE = """
import multiprocessing as mp
def produce(q):
    q.put(b"x" * (1 << 20))
def main():
    q = mp.Queue()
    p = mp.Process(target=produce, args=(q,))
    p.start()
    p.join()
if __name__ == "__main__":
    main()
"""

LOCKS = """
import multiprocessing as mp, time
def worker(name, lock):
    lock.acquire()
    if name == "B":
        lock.acquire()
    lock.release()
if __name__ == "__main__":
    lock = mp.Lock()
    ps = [mp.Process(target=worker, args=(n, lock)) for n in "BAC"]
    for p in ps:
        p.start()
        time.sleep(0.1)
    for p in ps:
        p.join()
"""

CIRCLE = """
import multiprocessing as mp, sys
def transfer(mine, other, met):
    with mine:
        met.wait()
        with other:
            pass
if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    a, b, met = mp.Lock(), mp.Lock(), mp.Barrier(2)
    ps = [mp.Process(target=transfer, args=args) for args in ((a, b, met), (b, a, met))]
    [p.start() for p in ps]; [p.join() for p in ps]
"""

PRODUCER = """
import multiprocessing as mp, sys
def load(path):
    raise ValueError("bad shard")
def produce(queue, pipe):
    queue.put(1)
    load("a")
if __name__ == "__main__":
    queue, done, (mine, its) = mp.JoinableQueue(), mp.Event(), mp.Pipe()
    mp.Process(target=produce, args=(queue, its)).start()
    if sys.argv[1] in ("get", "join"):
        queue.get()
    {"get": queue.get, "join": queue.join, "recv": mine.recv, "event": done.wait}[sys.argv[1]]()
"""

TASKS = """
import asyncio
async def sync_weights(a, b):
    async with a:
        await asyncio.sleep(0.1)
        async with b:
            pass
async def refresh_cache(a, b):
    async with b:
        await asyncio.sleep(0.1)
        async with a:
            pass
async def main():
    a, b = asyncio.Lock(), asyncio.Lock()
    await asyncio.gather(sync_weights(a, b), refresh_cache(a, b))
asyncio.run(main())
"""

TASK_CIRCLE = """
import asyncio
tasks = {}
async def step(after):
    await asyncio.sleep(0.05)
    await tasks[after]
async def main():
    for name, after in (("load", "eval"), ("train", "load"), ("eval", "train")):
        tasks[name] = asyncio.create_task(step(after), name=name)
    await asyncio.wait(tasks.values())
asyncio.run(main())
"""

FUTURE = """
import asyncio
async def infer(i):
    future = asyncio.get_running_loop().create_future()
    if i != 3:
        asyncio.get_running_loop().call_later(0.05, future.set_result, i)
    return await future
async def handle(i):
    return 2 * await infer(i)
async def main():
    print(sum(await asyncio.gather(*(handle(i) for i in range(8)))))
asyncio.run(main())
"""

FORKED_POOL = """
import threading, time, multiprocessing as mp
lock = threading.Lock()
def refresh():
    with lock:
        time.sleep(1000)
def score(x):
    with lock:
        return x
def main():
    threading.Thread(target=refresh, daemon=True).start()
    time.sleep(0.2)
    with mp.get_context("fork").Pool(2) as pool:
        pool.map(score, range(20))
main()
"""

STORE = """
import torch, torch.distributed as dist
def publish(store, step):
    if step != 5:
        store.set("lr/%d" % step, "0.1")
def follow(store, step):
    return float(store.get("lr/%d" % step))
def main():
    dist.init_process_group("gloo")
    store = dist.distributed_c10d._get_default_store()
    for step in range(10):
        (follow if dist.get_rank() else publish)(store, step)
        dist.all_reduce(torch.ones(3))
main()
"""

OWN_MUTEX = """
import ctypes
libc = ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(64)
def lookup():
    libc.pthread_mutex_lock(mutex)
lookup()
lookup()
"""

OWN_SERVER = """
from http.server import BaseHTTPRequestHandler, HTTPServer
import threading, urllib.request
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.shutdown()
server = HTTPServer(("127.0.0.1", 0), Handler)
url = "http://127.0.0.1:%d/stop" % server.server_port
threading.Thread(target=urllib.request.urlopen, args=(url,), daemon=True).start()
server.serve_forever()
"""

BOTH_PIPES = """
import subprocess
def tokenize(text):
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdin.write(text)
    child.stdin.close()
    return child.stdout.read()
tokenize(b"x" * (1 << 20))
"""

NOT_PICKLED = """
import multiprocessing as mp, time
def produce(queue):
    queue.put(lambda: 0)
    time.sleep(1000)
def main():
    queue = mp.get_context("fork").Queue()
    mp.get_context("fork").Process(target=produce, args=(queue,), daemon=True).start()
    queue.get()
if __name__ == "__main__":
    main()
"""

FINALLY = """
import socket
ours, theirs = socket.socketpair()
def train(step):
    if step == 7:
        raise FloatingPointError("loss is inf")
def main():
    try:
        for step in range(10):
            train(step)
    finally:
        ours.recv(1)
main()
"""

OWN_LOOP = """
import asyncio
async def fetch():
    await asyncio.sleep(0.01)
def collect(loop):
    return asyncio.run_coroutine_threadsafe(fetch(), loop).result()
async def rollout():
    return collect(asyncio.get_running_loop())
asyncio.run(rollout())
"""

LAST_THREAD = """
import queue, threading
class Uploader(threading.Thread):
    def run(self):
        queue.Queue().get()
Uploader(name="uploader").start()
"""

TARGET = """
import multiprocessing as mp, time
def load(shards, i):
    return shards[i]
def worker(i, barrier):
    time.sleep(0.5)
    load({0: "a"}, i)
    barrier.wait()
if __name__ == "__main__":
    b = mp.Barrier(2)
    ps = [mp.Process(target=worker, args=(i, b)) for i in range(2)]
    [p.start() for p in ps]; [p.join() for p in ps]
"""

# xpurun gets no CPU while a process ends. `reaped`: its parent has already asked for its status.
UNSEEN = """
import multiprocessing as mp, os, signal, sys
def load(shards, i):
    return shards[i]
def worker(i, barrier):
    load({0: "a", 2: "c"}, i)
    barrier.wait()
if __name__ == "__main__":
    os.kill(os.getppid(), signal.SIGSTOP)
    b = mp.Barrier(3)
    ps = [mp.Process(target=worker, args=(i, b)) for i in range(3)]
    [p.start() for p in ps]
    os.waitid(os.P_PID, ps[1].pid, os.WEXITED | (0 if sys.argv[1] == "reaped" else os.WNOWAIT))
    os.kill(os.getppid(), signal.SIGCONT)
    ps[0].join()
"""

RACE = """
import signal, sys
def on_child(signum, frame):
    raise RuntimeError("worker is killed")
signal.signal(signal.SIGALRM, on_child)
def fetch():
    signal.setitimer(signal.ITIMER_REAL, 0.0008)
    raise ConnectionResetError("reset by peer")
fetch()
"""

KILLED = """
import os, signal, time
def remember():
    keep = bytearray(64 << 20)
    keep[::4096] = b"x" * len(keep[::4096])
    time.sleep(1.3)
    os.kill(os.getpid(), signal.SIGKILL)
remember()
"""


class Holders(xpurun_test.Case):
    def job(self, text, *args, rank=True, options=(), **kwargs):
        script = self.dir / "train.py"
        script.write_text(text)
        result = self.run_xpurun("--hang-timeout", 2, "--on-hang", "kill", "--grace", "1s", *options, "--", PYTHON,
                                 script, *args, env=self.env(**(RANK if rank else {})), **kwargs)
        verdict = self.verdict()
        return result, verdict, json.dumps(verdict, indent=1) + result.stderr

    def hang(self, *args, **kwargs):
        result, verdict, detail = self.job(*args, **kwargs)
        self.assertEqual((result.returncode, verdict["kind"], verdict["level"]), (124, "hang", "confirmed"), detail)
        return verdict, detail

    def test_a_file_lock_that_another_rank_holds(self):
        verdict, detail = self.hang(FLOCK, self.dir / "data.lock", rank=False)
        self.assertEqual(verdict["ranks"], [0], detail)
        self.assertRegex(verdict["sentence"], r"hang: rank 0 holds the lock on data\.lock in multiprocessing wait "
                                              r"\(train\.py:8\); rank 1 has waited for the lock in work "
                                              r"\(train\.py:7: fcntl\.flock \S*data\.lock\) for \d+ s", detail)

    def test_a_file_lock_that_a_stranger_holds(self):
        path = self.dir / "data.lock"
        script = self.dir / "holder.py"
        script.write_text(HOLDER)
        with subprocess.Popen([sys.executable, script, path], stdout=subprocess.PIPE, env=self.env()) as holder:
            try:
                holder.stdout.readline()
                verdict, detail = self.hang(RECORD_LOCK, path)
            finally:
                holder.kill()
        self.assertIn(f": data.lock is locked by pid {holder.pid}, which is no rank of this job", verdict["sentence"],
                      detail)

    def test_a_lock_held_at_the_fork(self):
        verdict, detail = self.hang(FORKED, rank=False)
        self.assertRegex(verdict["sentence"], r"waiting for a lock in emit \(train\.py:8\S*( \S+)?\) for \d+ s, forked "
                                              "while its parent had other threads", detail)
        self.assertIn("spawn", verdict["next_text"], detail)

    def test_a_lock_held_at_the_fork_of_a_pool(self):
        verdict, detail = self.hang(FORKED_POOL)
        self.assertRegex(verdict["sentence"], r"has been in score \(train\.py:8\S*( \S+)?\) for \d+ s, forked while "
                                              "its parent had other threads", detail)
        self.assertIn("spawn", verdict["next_text"], detail)

    @unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
    def test_a_key_of_the_store_that_no_rank_has_set(self):
        script = self.dir / "train.py"
        script.write_text(STORE)
        result = self.run_xpurun("--hang-timeout", 3, "--on-hang", "kill", "--grace", "1s", "--",
                                 *xpurun_test.torchrun(self.dir / "log", ranks=2, job=script))
        verdict = self.verdict()
        detail = json.dumps(verdict, indent=1) + result.stderr
        self.assertEqual((verdict["id"], verdict["ranks"], verdict["confidence"]), ("hang.p2p", [0], "medium"), detail)
        self.assertIn("rank 1 waits for key lr/5 of the store in follow (train.py:7: store.get), which rank 0 has not "
                      "set, but waits in all_reduce (train.py:13)", verdict["sentence"], detail)

    def test_a_worker_of_a_pool_that_was_killed(self):
        verdict, detail = self.hang(POOL)
        self.assertRegex(verdict["sentence"], r"in main \(train\.py:10: Pool\.map\) for \d+ s; its ForkPoolWorker-\d+ "
                                              r"\(pid \d+\) was killed by SIGKILL, last seen in tokenize "
                                              r"\(train\.py:5\b.*\), at .*; with it, item 5 of 20 is lost", detail)
        self.assertNotIn("resource_tracker", detail)

    def test_the_initializer_of_an_executor_that_raises(self):
        result, verdict, detail = self.job(INITIALIZER)
        self.assertEqual((verdict["kind"], result.returncode), ("exception", 1), detail)
        self.assertRegex(verdict["sentence"], r"BrokenProcessPool: .*; before it, its process \(pid \d+\) raised "
                                              r"ValueError: no such table at train\.py:4 \(in prepare\)", detail)

    def test_the_initializer_of_a_pool_that_raises(self):
        verdict, detail = self.hang(POOL_INITIALIZER)
        self.assertRegex(verdict["sentence"], r"waiting for a pool in main \(train\.py:7: Pool\.map\) for \d+ s; its "
                                              r"\S+ \(pid \d+\) raised ValueError: no such table at train\.py:4 "
                                              r"\(in prepare\)", detail)

    def test_a_server_that_waits_for_requests(self):
        result, verdict, detail = self.job(SERVER)
        self.assertEqual((result.returncode, verdict["id"]), (0, "none.finished"), detail)
        self.assertNotIn("stall", result.stderr)

    def test_a_queue_that_nobody_empties(self):
        verdict, detail = self.hang(QUEUE, rank=False)
        self.assertRegex(verdict["sentence"], r"in main \(train\.py:9: .*full pipe while its parent", detail)
        self.assertIn("before join()", verdict["next_text"], detail)

    def test_a_lock_of_multiprocessing_is_a_hang(self):
        verdict, detail = self.hang(LOCKS, rank=False)
        self.assertEqual(verdict["ranks"], [0], detail)
        self.assertRegex(verdict["sentence"], r"^hang: rank 0 holds the lock in worker \(train\.py:6\S*.*; ranks 1-2 "
                                              r"have waited for the lock in worker \(train\.py:4", detail)

    def test_locks_of_multiprocessing_in_opposite_order(self):
        for method in ("fork", "spawn"):
            with self.subTest(method=method):
                self.out = self.dir / method
                verdict, detail = self.hang(CIRCLE, method, rank=False)
                self.assertEqual((verdict["id"], verdict["ranks"]), ("hang.lock", [0, 1]), detail)
                self.assertRegex(verdict["sentence"],
                                 r"rank 0 in transfer \(train\.py:6\S*.*\) for the lock that rank 1 holds, rank 1 in "
                                 r"transfer \(train\.py:6.*\) for the lock that rank 0 holds", detail)

    def test_an_exception_in_a_process_that_should_have_answered(self):
        for how in ("get", "join", "recv", "event"):
            with self.subTest(how=how):
                self.out = self.dir / how
                verdict, detail = self.hang(PRODUCER, how)
                self.assertRegex(verdict["sentence"],
                                 r"train\.py:1\d: .*; its process \(pid \d+\) raised ValueError: bad shard at "
                                 r"train\.py:4 \(in load\)", detail)

    def test_tasks_of_asyncio_that_wait_for_each_other(self):
        verdict, detail = self.hang(TASKS)
        self.assertRegex(verdict["sentence"], r"in sync_weights \(train\.py:6: Lock\.acquire\) for \d+ s; its task "
                                              r"Task-2 waits there for the lock that Task-3 holds, Task-3 in "
                                              r"refresh_cache \(train\.py:11: Lock\.acquire\) for the lock that "
                                              r"Task-2 holds", detail)
        self.assertEqual(verdict["where"]["line"], 6, detail)
        self.assertIn("in the same order in all tasks", verdict["next_text"], detail)

    def test_tasks_that_await_each_other(self):
        verdict, detail = self.hang(TASK_CIRCLE)
        self.assertRegex(verdict["sentence"], r"rank 0 has been in step \(train\.py:6\) for \d+ s; its task eval waits "
                                              r"there for the end of train, load in step \(train\.py:6\) for the end "
                                              r"of eval, train in step \(train\.py:6\) for the end of load", detail)
        self.assertEqual(verdict["next_text"], "let one of these tasks end without awaiting the next one", detail)

    def test_a_future_that_nobody_sets(self):
        verdict, detail = self.hang(FUTURE)
        self.assertRegex(verdict["sentence"], r"rank 0 has been in infer \(train\.py:7\) for \d+ s", detail)
        self.assertNotIn("handle", verdict["sentence"], detail)

    def test_a_mutex_that_its_own_thread_holds(self):
        verdict, detail = self.hang(OWN_MUTEX)
        self.assertRegex(verdict["sentence"], r"lookup \(train\.py:6\S*.*\) for \d+ s: it waits for a mutex that it "
                                              "holds itself", detail)
        self.assertIn("unlock the mutex on each way out", verdict["next_text"], detail)

    def test_a_server_that_its_own_handler_stops(self):
        verdict, detail = self.hang(OWN_SERVER)
        self.assertRegex(verdict["sentence"], r"in Handler\.do_GET \(train\.py:6: BaseServer\.shutdown\) for \d+ s; it "
                                              r"waits for the end of serve_forever\(\), which has called it", detail)
        self.assertIn("in another thread", verdict["next_text"], detail)

    def test_a_filter_whose_output_nobody_reads(self):
        verdict, detail = self.hang(BOTH_PIPES)
        self.assertRegex(verdict["sentence"], r"in tokenize \(train\.py:5: \S+write\) for \d+ s: its child cat \(pid "
                                              r"\d+\) cannot write to a full pipe, and the rank does not read", detail)
        self.assertIn("communicate()", verdict["next_text"], detail)

    def test_an_item_of_a_queue_that_cannot_be_sent(self):
        verdict, detail = self.hang(NOT_PICKLED)
        self.assertRegex(verdict["sentence"], r"in main \(train\.py:9: Queue\.get\) for \d+ s; before, its process "
                                              r"\(pid \d+\) raised \w+: Can't pickle .* and went on", detail)

    def test_cleanup_that_hangs_after_an_exception(self):
        verdict, detail = self.hang(FINALLY)
        self.assertRegex(verdict["sentence"], r"in main \(train\.py:12: \S*recv.*\) for \d+ s while handling "
                                              r"FloatingPointError: loss is inf at train\.py:6 \(in train\)", detail)
        self.assertIn("mend FloatingPointError first", verdict["next_text"], detail)

    def test_a_call_that_blocks_its_own_event_loop(self):
        verdict, detail = self.hang(OWN_LOOP)
        self.assertRegex(verdict["sentence"], r"in collect \(train\.py:6: .*; it blocks the event loop of its thread",
                         detail)

    def test_the_thread_that_the_end_of_the_program_waits_for(self):
        verdict, detail = self.hang(LAST_THREAD)
        self.assertRegex(verdict["sentence"], r"rank 0 has ended its program \d+ s ago and waits for its thread \d+ "
                                              r"\(uploader\), which is in Uploader\.run \(train\.py:5", detail)

    def test_an_exception_in_the_target_of_a_process(self):
        verdict, detail = self.hang(TARGET, rank=False)
        self.assertRegex(verdict["sentence"], r"rank 1 raised KeyError: 1 at train\.py:4 \(in load\)", detail)

    def test_an_exception_in_a_process_that_was_never_seen(self):
        for how, words in (("waiting", r"rank 1 raised KeyError: 1 at train\.py:4 \(in load\)"),
                           ("reaped", r"; pid \d+ raised KeyError: 1 at train\.py:4 \(in load\) before")):
            with self.subTest(how=how):
                self.out = self.dir / how
                _, verdict, detail = self.job(UNSEEN, how, rank=False, options=("--busy-timeouts", 2))
                self.assertEqual(verdict["kind"], "hang", detail)
                self.assertRegex(verdict["sentence"], words, detail)

    def test_an_exception_while_a_signal_handler_raises(self):
        for _ in range(3):
            _, verdict, detail = self.job(RACE)
            self.assertEqual(verdict["exception"]["type"], "ConnectionResetError", detail)
            self.out = self.out.with_name(self.out.name + "x")

    def test_a_killed_rank_with_its_memory_and_place(self):
        _, verdict, detail = self.job(KILLED, options=("--poll", "200ms"))
        self.assertRegex(verdict["sentence"], r"it had [678]\d(\.\d)? MiB in RAM and was last seen in remember "
                                              r"\(train\.py:6", detail)


if __name__ == "__main__":
    xpurun_test.in_shards(2)
