"""Cases 52 to 58: processes that are hard to dump. Whatever the result of the dump, the target is never harmed."""

import json
import shutil
import signal
import time

import attack
import lane
from attack import PYTHON

DEEP = """
import sys, threading
sys.setrecursionlimit(10**6)
threading.stack_size(512 << 20)
def deep(n):
    if n:
        return deep(n - 1)
    print("up", flush=True)
    threading.Event().wait(100)
t = threading.Thread(target=deep, args=(int(sys.argv[1]),))
t.start()
t.join()
"""


class Targets(attack.Case):
    def assert_unharmed(self, process):
        self.wait_for(lambda: not attack.stopped(process.pid), "target on its way", 30)
        self.assertIsNone(process.poll())

    def dump(self, process, *more, status=0, timeout=90):
        result = self.stacks("--pid", process.pid, *more, timeout=timeout)
        if status is not None:
            self.assertEqual(result.returncode, status, result.stderr)
        self.assert_unharmed(process)
        return result.stdout

    def test_case_52_deep_recursion(self):
        target = self.python(DEEP, 100_000 if lane.LONG else 20_000)
        self.assertIn("deep", self.dump(target))

    def test_case_53_many_threads(self):
        count = 5000 if lane.LONG else 1000
        code = (
            f"import threading, time\nthreading.stack_size(64 << 10)\nfor _ in range({count}):\n   "
            " threading.Thread(target=time.sleep, args=(300,), daemon=True).start()\nprint('up',"
            " flush=True)\ntime.sleep(300)"
        )
        target = self.python(code)
        text = self.dump(target, "--format", "json")
        self.assertEqual(sum(len(p["threads"]) for p in self.processes(text)), count + 1)

    def processes(self, text):
        found = json.loads(text)
        return found.get("processes", [found]) if isinstance(found, dict) else found

    def sleeper(self, seconds):
        """The parent of a vfork waits in D."""
        return self.compile(
            "#include <unistd.h>\n#include <time.h>\nint main(void) { if (vfork() == 0) { struct timespec t = {"
            f"{seconds}, 0}}; nanosleep(&t, 0); _exit(0); }} return 3; }}\n"
        )

    def test_case_54_uninterruptible_sleep(self):
        """D1: no debugger is attached to the process, so the dump does not wait, and the process continues."""
        target = self.start(self.sleeper(6))
        self.wait_for(lambda: attack.tasks(target.pid) and attack.tasks(target.pid)[0][1] == "D", "D state")
        self.stacks("--pid", target.pid)
        self.assertEqual([t[1:] for t in attack.tasks(target.pid)], [("D", 0)], "the dump has waited for it")
        self.assertEqual(target.wait(timeout=30), 3, "left stopped for ever")

    @lane.long
    def test_case_54_uninterruptible_sleep_that_outlives_every_time_limit(self):
        target = self.start(self.sleeper(32))
        result = self.run_xpurun("--hang-timeout", "2", "--", self.dir / "program", env=self.rank_env(), timeout=120)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertEqual(target.wait(timeout=60), 3)

    def test_case_55_the_main_thread_has_ended(self):
        code = ("import ctypes, threading, time\ndef stays():\n    print('up', flush=True)\n    time.sleep(100)\n"
                "threading.Thread(target=stays).start()\ntime.sleep(0.5)\nctypes.CDLL(None).pthread_exit(None)")
        target = self.python(code)
        self.wait_for(lambda: attack.tasks(target.pid)[0][1] == "Z", "end of the main thread")
        result = self.stacks("--pid", target.pid)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("stays", result.stdout)
        self.assertIsNone(target.poll())

    def test_case_55_a_rank_whose_main_thread_has_ended_still_lives(self):
        code = (
            "import ctypes, threading, time\ndef stays():\n    time.sleep(4)\n    open('over', 'w').close()\n    import"
            " os; os._exit(6)\n"
            "threading.Thread(target=stays).start()\ntime.sleep(0.5)\nctypes.CDLL(None).pthread_exit(None)"
        )
        result = self.run_xpurun("--", PYTHON, "-c", code, env=self.rank_env())
        self.assertEqual(result.returncode, 6, result.stderr)
        self.assertTrue((self.dir / "over").exists())
        self.assertNotIn("exited with status 0", result.stderr)

    def test_case_56_dumps_while_python_starts_and_ends(self):
        for i in range(60 if lane.LONG else 8):
            process = self.start(PYTHON, "-c", "import json, decimal, asyncio; print('over')")
            time.sleep(0.015 * (i % 8))
            self.stacks("--pid", process.pid)
            out, err = process.communicate(timeout=30)
            self.assertEqual((out, process.returncode), ("over\n", 0), err)

    def test_case_57_storms_of_exec_and_fork(self):
        storms = {
            "exec": (
                "import os, sys\nn = int(sys.argv[1])\nif n == 200: print('up', flush=True)\nif n:"
                " os.execv(sys.executable, [sys.executable, '-S', *sys.orig_argv[1:-1], str(n - 1)])\nprint('over')"
            ),
            "fork": (
                "import os, sys\nprint('up', flush=True)\nfor i in range(600):\n    p = os.fork()\n    if p == 0:"
                " os._exit(0)\n    os.waitpid(p, 0)\nprint('over')"
            ),
        }
        for name, code in storms.items():
            with self.subTest(storm=name):
                process = self.start(PYTHON, "-S", "-c", code, "200")
                self.assertEqual(process.stdout.readline(), "up\n")
                for _ in range(40 if lane.LONG else 6):
                    self.stacks("--pid", process.pid, "--children")
                out, err = process.communicate(timeout=90)
                self.assertEqual((out, process.returncode), ("over\n", 0), err)

    def test_case_57_children_that_are_zombies_or_gone(self):
        """D18: not an error, as with py-spy."""
        target = self.python(
            "import os, time\nif os.fork() == 0: os._exit(0)\ntime.sleep(0.3)\nprint('up', flush=True)\ntime.sleep(100)"
        )
        result = self.stacks("--pid", target.pid, "--children")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(str(target.pid), result.stdout)

    def test_case_58_another_tracer(self):
        if not shutil.which("strace"):
            self.skipTest("needs strace")
        target = self.python("import time\ndef inner():\n    time.sleep(100)\nprint('up', flush=True)\ninner()")
        tracer = self.start("strace", "-f", "-o", "/dev/null", "-p", target.pid)
        self.wait_for(lambda: attack.tasks(target.pid)[0][2] == tracer.pid, "strace")
        result = self.stacks("--pid", target.pid)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("inner", result.stdout)
        self.assertIn("without stopping", result.stdout + result.stderr)
        self.assertEqual(attack.tasks(target.pid)[0][2], tracer.pid)
        tracer.send_signal(signal.SIGINT)
        tracer.wait(timeout=30)

    def test_case_58_eight_dumps_at_once(self):
        target = self.python("import time\ndef inner():\n    time.sleep(100)\nprint('up', flush=True)\ninner()")
        dumps = [self.start(attack.PROGRAM, "stacks", "--pid", target.pid) for _ in range(8)]
        for dump in dumps:
            out, err = dump.communicate(timeout=60)
            self.assertEqual(dump.returncode, 0, err)
            self.assertIn("inner", out)
        self.assert_unharmed(target)


if __name__ == "__main__":
    attack.main()
