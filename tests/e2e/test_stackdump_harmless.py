"""A dump never blocks and does no harm: real targets in every process state, and helpers that are
killed at any moment."""

import ctypes
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from stackdump_live import STACKDUMP, Dump, Target, names

TIMES = float(os.environ.get("XPURUN_TEST_TIMES", "1"))  # for long runs by hand

# Counts in a file, from a C thread that needs no interpreter, and from Python.
COUNTING = """
import mmap, os, struct, sys, threading, time
fd = os.open(sys.argv[0] + ".count", os.O_RDWR | os.O_CREAT, 0o600)
os.ftruncate(fd, 4096)
page = mmap.mmap(fd, 4096)
def count(slot):
    n = 0
    while True:
        n += 1
        page[slot * 8:slot * 8 + 8] = struct.pack("<Q", n)
        time.sleep(0.0005)
for slot in range(1, 4):
    threading.Thread(target=count, args=(slot,), daemon=True).start()
print("ready", flush=True)
count(0)
"""


class Counter(Target):
    def __init__(self):
        super().__init__(COUNTING)

    def counts(self):
        with open(self.script + ".count", "rb") as f:
            data = f.read(32)
        return [int.from_bytes(data[i:i + 8], "little") for i in range(0, 32, 8)]

    def check_alive(self, test):
        before = self.counts()
        deadline = time.monotonic() + 10
        while any(b >= a for b, a in zip(before, self.counts())) and time.monotonic() < deadline:
            time.sleep(0.005)
        test.assertTrue(all(b < a for b, a in zip(before, self.counts())), "a thread stands still after the dump")
        test.assertIsNone(self.process.poll())


def states(pid):
    out = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/stat") as f:
                out[int(tid)] = f.read().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            pass
    return out


def tracer(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(next(line for line in f if line.startswith("TracerPid")).split()[1])


class KilledHelper(unittest.TestCase):
    def test_at_any_moment(self):
        """SIGKILL after 0 to 30 ms, at any step of the helper: every thread of the target continues."""
        rng = random.Random(4)
        with Counter() as target, tempfile.TemporaryDirectory() as folder:
            for _ in range(int(60 * TIMES)):
                helper = subprocess.Popen([STACKDUMP, "--pid", str(target.pid), "--out", folder + "/x.stacks.json"],
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(rng.uniform(0, 0.03))
                helper.kill()
                helper.wait()
                self.assertNotIn("t", states(target.pid).values())
            target.check_alive(self)
            self.assertEqual(tracer(target.pid), 0)

    def test_while_it_holds_the_target(self):
        """As soon as the target is seen stopped."""
        with Counter() as target, tempfile.TemporaryDirectory() as folder:
            caught = 0
            for _ in range(int(60 * TIMES)):
                helper = subprocess.Popen([STACKDUMP, "--pid", str(target.pid), "--out", folder + "/x.stacks.json"],
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                while helper.poll() is None:
                    if tracer(target.pid) != 0:  # the thread of the helper that traces
                        helper.kill()
                        caught += 1
                        break
                helper.wait()
            self.assertGreater(caught, 0)
            target.check_alive(self)
            self.assertEqual(tracer(target.pid), 0)

    def test_its_parent_dies(self):
        with Counter() as target, tempfile.TemporaryDirectory() as folder:
            for _ in range(5):
                subprocess.run(["sh", "-c", '"$0" "$@" & sleep 0.005; kill -9 $$', STACKDUMP, "--pid", str(target.pid),
                                "--out", folder + "/x.stacks.json"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            target.check_alive(self)


class Restless(unittest.TestCase):
    """Targets that change during many dumps. Nothing may hang, every dump must end with a file or a reason, and the
    target must continue."""

    def dumps(self, target, count):
        for _ in range(int(count * TIMES)):
            dump = Dump(target.pid, "--deadline-ms", "100")
            self.assertIn(dump.rc, (0, 1))
            if dump.rc == 0:
                self.assertTrue(dump.json["threads"])
            else:
                self.assertTrue(dump.stderr.strip())

    def test_threads_start_and_end(self):
        with Target("""
            import threading, time
            done = 0
            print("ready", flush=True)
            while True:
                threads = [threading.Thread(target=time.sleep, args=(0.001 * i,)) for i in range(8)]
                for t in threads: t.start()
                for t in threads: t.join()
                done += 1
        """) as target:
            self.dumps(target, 30)
            self.assertIsNone(target.process.poll())
            self.assertNotIn("t", states(target.pid).values())

    def test_it_forks(self):
        with Target("""
            import os
            print("ready", flush=True)
            while True:
                pid = os.fork()
                if pid == 0:
                    os._exit(7)
                if os.waitpid(pid, 0)[1] != 7 << 8:
                    raise SystemExit("a child did not end as it should")
        """) as target:
            self.dumps(target, 30)
            self.assertIsNone(target.process.poll())

    def test_it_executes_others(self):
        with Target("""
            import os, sys, threading, time
            if len(sys.argv) < 2:
                print("ready", flush=True)
            threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
            time.sleep(0.02)
            os.execv(sys.executable, [sys.executable, "-S", "-E", sys.argv[0], "again"])
        """) as target:
            self.dumps(target, 30)
            time.sleep(0.2)
            self.assertIsNone(target.process.poll())

    def test_it_dies(self):
        rng = random.Random(7)
        for _ in range(int(12 * TIMES)):
            with Target("""
                import threading, time
                for i in range(20):
                    threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
                print("ready", flush=True)
                time.sleep(100)
            """) as target, tempfile.TemporaryDirectory() as folder:
                helper = subprocess.Popen([STACKDUMP, "--pid", str(target.pid), "--out", folder + "/x.stacks.json"],
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                time.sleep(rng.uniform(0, 0.03))
                target.process.kill()
                out, _ = helper.communicate(timeout=20)
                self.assertIn("done ", out)
                self.assertEqual(target.process.wait(), -signal.SIGKILL)

    def test_signals_arrive(self):
        """A thousand signals per second, all counted: the stops lose none. Real-time signals queue."""
        with Target("""
            import signal, sys, time
            got = 0
            def count(*_):
                global got
                got += 1
            signal.signal(signal.SIGRTMIN, count)
            print("ready", flush=True)
            while True:
                line = sys.stdin.readline()
                time.sleep(0.2)
                print(got, flush=True)
        """) as target:
            sent = 0
            queue = ctypes.CDLL(None).sigqueue
            for _ in range(int(20 * TIMES)):
                with tempfile.TemporaryDirectory() as folder:
                    helper = subprocess.Popen([STACKDUMP, "--pid", str(target.pid), "--out", folder + "/x.stacks.json"],
                                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    while helper.poll() is None:
                        if queue(target.pid, signal.SIGRTMIN, ctypes.c_void_p(sent)) == 0:
                            sent += 1
                        time.sleep(0.0005)
            # Python merges signals that arrive before its handler runs: no signal may stay pending in the kernel.
            target.process.stdin.write("\n")
            target.process.stdin.flush()
            self.assertGreater(int(target.process.stdout.readline()), 0)
            with open(f"/proc/{target.pid}/status") as f:
                pending = [line.split()[1] for line in f if line.startswith(("SigPnd", "ShdPnd"))]
            self.assertEqual({int(p, 16) for p in pending}, {0})

    def test_a_signal_pending_at_the_stop_is_delivered_once(self):
        with Target("""
            import signal, sys, time
            got = []
            signal.signal(signal.SIGUSR1, lambda *a: got.append(1))
            print("ready", flush=True)
            for line in sys.stdin:
                time.sleep(0.01)  # CPython runs the handler between two instructions
                count = len(got)
                got.clear()  # before the reply, which triggers the next signal
                print(count, flush=True)
        """) as target:
            for _ in range(int(10 * TIMES)):
                # Stopped, so that the signal is pending when the dump comes.
                os.kill(target.pid, signal.SIGSTOP)
                os.kill(target.pid, signal.SIGUSR1)
                self.assertEqual(Dump(target.pid).rc, 0)
                os.kill(target.pid, signal.SIGCONT)
                target.process.stdin.write("\n")
                target.process.stdin.flush()
                self.assertEqual(target.process.stdout.readline().strip(), "1")


class States(unittest.TestCase):
    def test_uninterruptible_sleep(self):
        """The parent of vfork() is in state D until the child calls exec. Its other threads are dumped."""
        with Target("""
            import ctypes, threading, time
            def sleeper(): time.sleep(1000)
            threading.Thread(target=sleeper, daemon=True).start()
            libc = ctypes.PyDLL(None)
            print("ready", flush=True)
            if libc.vfork() == 0:
                libc.sleep(30)
                libc._exit(0)
        """) as target:
            deadline = time.monotonic() + 5
            while "D" not in states(target.pid).values() and time.monotonic() < deadline:
                time.sleep(0.01)
            if "D" not in states(target.pid).values():
                self.skipTest("no thread in uninterruptible sleep could be made")
            try:
                begun = time.monotonic()
                dump = Dump(target.pid, "--deadline-ms", "100")
                self.assertLess(time.monotonic() - begun, 10)
                self.assertEqual(dump.rc, 0)
                self.assertEqual(dump.main["state"], "D")
                self.assertLess(dump.pause_ms(), 1000)
                self.assertTrue(any("sleeper" in names(t) for t in dump.json["threads"]))
                if os.geteuid() == 0:
                    self.assertIn("kernel", {f["kind"] for f in dump.main["frames"]})
                self.assertEqual(tracer(target.pid), 0)
            finally:
                with open(f"/proc/{target.pid}/task/{target.pid}/children") as f:
                    for child in f.read().split():
                        os.kill(int(child), signal.SIGKILL)

    def test_stopped_stays_stopped(self):
        with Counter() as target:
            os.kill(target.pid, signal.SIGSTOP)
            while target.state() != "T":
                time.sleep(0.01)
            before = target.counts()
            for _ in range(5):
                self.assertEqual(Dump(target.pid).rc, 0)
                self.assertEqual(set(states(target.pid).values()), {"T"})
            self.assertEqual(target.counts(), before)
            os.kill(target.pid, signal.SIGCONT)
            target.check_alive(self)

    def test_already_traced(self):
        if not shutil.which("gdb"):
            self.skipTest("gdb is not installed")
        with Counter() as target, tempfile.TemporaryDirectory() as folder:
            attached, done = os.path.join(folder, "attached"), os.path.join(folder, "done")
            gdb = subprocess.Popen(["gdb", "-nx", "-q", "-batch", "-iex", "set auto-solib-add off", "-iex",
                                    "set debuginfod enabled off", "-p", str(target.pid), "-ex",
                                    f"shell touch {attached}; while test ! -e {done}; do sleep 0.05; done"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                deadline = time.monotonic() + 20
                while not os.path.exists(attached) and time.monotonic() < deadline:
                    time.sleep(0.02)
                dump = Dump(target.pid)
                self.assertEqual((dump.rc, dump.json["method"], dump.json["status"]), (0, "no-stop", "partial"))
                self.assertIn("already traces it", dump.json["reason"])
            finally:
                # Not killed: gdb would leave its SIGSTOP behind.
                with open(done, "w"):
                    pass
                gdb.wait(30)
            target.check_alive(self)

    def test_several_helpers_at_once(self):
        """One helper holds the target, the others wait or read without stopping it: all of them get stacks."""
        with Counter() as target, tempfile.TemporaryDirectory() as folder:
            for n in range(int(3 * TIMES)):
                helpers = [
                    subprocess.Popen(
                        [STACKDUMP, "--pid", str(target.pid), "--out", f"{folder}/{n}-{i}.stacks.json"],
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.PIPE,
                        text=True,
                    )
                    for i in range(4)
                ]
                for helper in helpers:
                    _, errors = helper.communicate(timeout=30)
                    self.assertEqual(helper.returncode, 0, errors)
            target.check_alive(self)

    def test_three_hundred_threads(self):
        with Target("""
            import threading, time
            def work(n):
                return time.sleep(1000) if n == 0 else work(n - 1)
            for i in range(320):
                threading.Thread(target=work, args=(20,), daemon=True).start()
            print("ready", flush=True)
            time.sleep(1000)
        """) as target:
            dump = Dump(target.pid)
            self.assertEqual((dump.rc, dump.json["status"]), (0, "ok"))
            self.assertEqual(len(dump.json["threads"]), 321)
            for thread in dump.json["threads"]:
                if not thread["main"]:
                    self.assertEqual(names(thread).count("work"), 21)

    def test_the_deadline_cuts_the_pause(self):
        with Target("""
            import threading, time
            def work(n):
                return time.sleep(1000) if n == 0 else work(n - 1)
            for i in range(300):
                threading.Thread(target=work, args=(60,), daemon=True).start()
            print("ready", flush=True)
            time.sleep(1000)
        """) as target:
            dump = Dump(target.pid, "--deadline-ms", "1")
            self.assertEqual(dump.rc, 0)
            self.assertEqual(dump.json["status"], "partial")
            self.assertIn("time", dump.json["reason"])
            self.assertLess(dump.pause_ms(), 500)  # far beyond one system call, on any machine
            self.assertNotIn("t", states(target.pid).values())

    def test_not_python(self):
        victim = subprocess.Popen(["sleep", "1000"])
        try:
            time.sleep(0.1)
            dump = Dump(victim.pid)
            self.assertEqual((dump.rc, dump.json["python_version"]), (0, ""))
            self.assertTrue(any("nanosleep" in n for n in names(dump.main)), names(dump.main))
        finally:
            victim.kill()
            victim.wait()

    def test_a_target_whose_main_thread_has_ended(self):
        with Target("""
            import ctypes, threading, time
            def work(): time.sleep(1000)
            threading.Thread(target=work).start()
            print("ready", flush=True)
            ctypes.PyDLL(None).pthread_exit(None)
        """) as target:
            dump = Dump(target.pid)
            self.assertEqual(dump.rc, 0, dump.stderr)
            self.assertIn("Z", {t["state"] for t in dump.json["threads"]})


if __name__ == "__main__":
    unittest.main()
