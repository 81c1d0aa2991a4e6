"""PositionReader: the readings of the supervisor without stopping a rank."""

import os
import re
import subprocess
import time
import unittest

from stackdump_live import Target, on_every_python

POSITION_PROBE = os.environ["XPURUN_POSITION_PROBE"]


class Watching(unittest.TestCase):
    def watch(self, pid, times=20, interval_ms=10):
        done = subprocess.run([POSITION_PROBE, str(pid), str(times), str(interval_ms)], capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()

    def check_moves(self, target):
        rc, lines = self.watch(target.pid, 30, 30)
        self.assertEqual(rc, 0, lines)
        self.assertGreater(len({line.split()[0] for line in lines[:-1]}), 10, lines)

    def check_stands_still(self, target):
        time.sleep(0.2)
        rc, lines = self.watch(target.pid, 100, 5)
        self.assertEqual(rc, 0, lines)
        self.assertEqual(len(set(lines[:-1])), 1, lines)

    @on_every_python
    def test_every_interpreter(self, version, path):
        with Target("""
            import threading, time
            threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
            def waits():
                print("ready", flush=True)
                time.sleep(1000)
            waits()
        """, path) as t:
            rc, lines = self.watch(t.pid)
            self.assertEqual(rc, 0, lines)
            self.assertEqual(len(set(lines[:-1])), 1, lines)
            script = re.escape(t.script)
            self.assertRegex(lines[0], rf"true waits {script} 6 \| waits {script} 6 1$")

    @on_every_python
    def test_the_users_line_outside_of_the_library(self, version, path):
        with Target("""
            import threading
            class Loader:
                def fetch(self):
                    held = threading.Event()
                    print("ready", flush=True)
                    held.wait()
            Loader().fetch()
        """, path) as t:
            time.sleep(0.2)
            rc, lines = self.watch(t.pid)
            self.assertEqual(rc, 0, lines)
            script = re.escape(t.script)
            self.assertRegex(lines[0], rf"true (Condition\.)?wait \S+/threading\.py \d+ \| "
                                       rf"(Loader\.)?fetch {script} 7 3$")

    def test_loops_move(self):
        for body in ("while True: step(1); step(2)", "while True: x += 1"):
            with self.subTest(body=body), Target(f"""
                def step(n):
                    return sum(range(n))
                print("ready", flush=True)
                x = 0
                {body}
            """) as t:
                _, lines = self.watch(t.pid, 60, 3)
                self.assertGreater(len({l.split()[0] for l in lines[:-1]}), 1)

    @on_every_python
    def test_a_loop_in_one_call_moves(self, version, path):
        """The loop is in the same call at every poll, as if it waited for a GPU; its counter shows progress."""
        with Target("""
            import time
            def train():
                step = 1000
                print("ready", flush=True)
                while True:
                    time.sleep(0.02)
                    step += 1
            train()
        """, path) as t:
            self.check_moves(t)

    @on_every_python
    def test_a_loop_outside_of_functions_moves(self, version, path):
        """A script without a main function, and with more variables than are read."""
        with Target("""
            import time
            for n in range(1000):
                globals()[f"constant_{n}"] = n
            print("ready", flush=True)
            for step in range(1000, 10**9):
                time.sleep(0.02)
        """, path) as t:
            self.check_moves(t)

    @on_every_python
    def test_what_others_do_with_a_scripts_variables_is_no_movement(self, version, path):
        """Functions, methods and nested functions, run by other threads."""
        with Target("""
            import threading, time
            beats, rounds, latest, started = 1000, 1000, None, 0
            def forever(beat):
                while True:
                    beat()
                    time.sleep(0.001)
            def beat():
                global beats
                beats += 1
            class Watch:
                def beat(self):
                    def inside():
                        global rounds, latest
                        rounds += 1
                        latest = object()
                    inside()
            for what in (beat, Watch().beat):
                threading.Thread(target=forever, args=(what,), daemon=True).start()
                started += 1
            held = threading.Lock()
            held.acquire()
            print("ready", flush=True)
            held.acquire()
        """, path) as t:
            self.check_stands_still(t)

    @on_every_python
    def test_what_others_do_is_no_movement(self, version, path):
        """Another thread modifies the objects of the still thread's variables."""
        with Target("""
            import threading, time
            def waits(step=4711, loss=0.5):
                seen, counts, beats, name = [], {}, 1000, "x" * 10
                def work():
                    nonlocal beats
                    while True:
                        beats += 1
                        seen.append(beats)
                        counts["n"] = counts[beats] = beats
                        time.sleep(0.001)
                threading.Thread(target=work, daemon=True).start()
                while not seen:
                    time.sleep(0.01)
                held = threading.Lock()
                held.acquire()
                print("ready", flush=True)
                held.acquire()
            waits()
        """, path) as t:
            self.check_stands_still(t)

    def test_waiting_by_the_clock_is_no_movement(self):
        """In the standard library, and in a function of the program's own."""
        bodies = ("try: empty.get(timeout=0.01)\n        except queue.Empty: pass",
                  "left = end - time.monotonic(); time.sleep(0.01)")
        for body in bodies:
            with self.subTest(body=body), Target(f"""
                import queue, time
                empty = queue.Queue()
                def waits():
                    end = time.monotonic() + 1000
                    left = 0.0
                    print("ready", flush=True)
                    while True:
                        {body.replace(chr(10), chr(10) + " " * 16)}
                waits()
            """) as t:
                rc, lines = self.watch(t.pid, 60, 7)
                self.assertEqual(rc, 0, lines)
                # Most readings find the thread at the same position.
                places = [line.split()[0] for line in lines[:-1]]
                self.assertGreater(max(places.count(p) for p in places), len(places) // 2, lines)

    def test_other_program(self):
        p = subprocess.Popen(["sleep", "1000"])
        try:
            time.sleep(0.1)
            rc, lines = self.watch(p.pid)
            self.assertEqual(rc, 1)
            self.assertIn("no Python", lines[0])
        finally:
            p.kill()
            p.wait()

    def test_exec_and_exit_end_the_watch(self):
        for how in ("os.execv('/bin/sleep', ['sleep', '1000'])", "os._exit(0)"):
            with self.subTest(how=how), Target(f"""
                import os, sys
                print("ready", flush=True)
                sys.stdin.readline()
                {how}
            """) as t:
                p = subprocess.Popen([POSITION_PROBE, str(t.pid), "1000", "10"], stdout=subprocess.PIPE, text=True)
                time.sleep(0.2)
                t.process.stdin.write("\n")
                t.process.stdin.flush()
                out, _ = p.communicate(timeout=20)
                self.assertEqual(p.returncode, 1)
                self.assertIn("error", out.splitlines()[-1])

    def test_cost(self):
        with open(POSITION_PROBE, "rb") as f:
            if b"__asan_init" in f.read():
                self.skipTest("AddressSanitizer keeps freed memory")
        with Target("""
            import time
            def deep(n):
                if n: return sorted([n], key=lambda x: deep(n - 1))
                time.sleep(1000)
            print("ready", flush=True)
            deep(30)
        """) as t:
            _, few = self.watch(t.pid, 100, 0)
            _, many = self.watch(t.pid, 2100, 0)
            few_us, few_kib = map(int, few[-1].split()[1:])
            many_us, many_kib = map(int, many[-1].split()[1:])
            self.assertLess((many_us - few_us) / 2000, 1000)  # microseconds per read
            self.assertLess(many_kib - few_kib, 1024)         # does not grow


if __name__ == "__main__":
    unittest.main()
