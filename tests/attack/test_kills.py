"""Cases 42 to 44, 62: after a kill of any process at any moment, no target stays stopped and no helper stays behind."""

import os
import pathlib
import random
import signal
import subprocess
import time
import unittest

import attack
import lane
import xpurun_test
from attack import PROGRAM, PYTHON

MANY_THREADS = """
import threading, time
def deep(n):
    if n:
        return deep(n - 1)
    time.sleep(100000)
for _ in range(100):
    threading.Thread(target=deep, args=(15,), daemon=True).start()
print("up", flush=True)
n = 0
while True:
    n += 1
"""


def children(pid):
    try:
        return [int(c) for c in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class KilledDumps(attack.Case):
    """The helper, its parent, or both."""

    ROUNDS = 100 if lane.LONG else 12

    def setUp(self):
        super().setUp()
        self.random = random.Random(1)
        self.target = self.python(MANY_THREADS).pid

    def helpers(self):
        """Living helpers for this test's target."""
        out = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit() and attack.alive(entry.name):
                try:
                    argv = (entry / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if argv[0].endswith(b"xpurun-stackdump") and str(self.target).encode() in argv:
                    out.append(int(entry.name))
        return out

    def one(self, kill):
        dump = subprocess.Popen([PROGRAM, "stacks", "--pid", str(self.target)], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, start_new_session=True, env=self.env(TMPDIR=str(self.dir)))
        time.sleep(self.random.random() * 0.05)
        kill(dump)
        self.assertIsNotNone(dump.wait(timeout=60))
        self.wait_for(
            lambda: not attack.stopped(self.target) and not self.helpers(), "target on its way, no helper left", 20
        )
        self.assertTrue(attack.alive(self.target))

    def test_case_42_the_helper_is_killed(self):
        def kill(dump):
            for child in children(dump.pid):
                try:
                    os.kill(child, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for _ in range(self.ROUNDS):
            self.one(kill)

    def test_case_42_the_group_is_killed(self):
        for _ in range(self.ROUNDS):
            self.one(lambda dump: os.killpg(dump.pid, signal.SIGKILL))

    def test_case_42_the_parent_is_killed(self):
        for _ in range(self.ROUNDS):
            self.one(lambda dump: dump.kill())

    def test_case_69_signals_leave_no_directory_behind(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            with self.subTest(signal=number.name):
                for _ in range(3):
                    self.one(lambda dump, n=number: dump.send_signal(n))
        self.assertEqual([p.name for p in self.dir.iterdir() if p.name.startswith("xpurun-stacks")], [])

    def test_case_69_what_a_kill_left_is_cleaned_by_the_next_dump(self):
        for _ in range(5):
            self.one(lambda dump: dump.kill())
        result = subprocess.run(
            [PROGRAM, "stacks", "--pid", str(self.target)],
            capture_output=True,
            text=True,
            timeout=60,
            env=self.env(TMPDIR=str(self.dir)),
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([p.name for p in self.dir.iterdir() if p.name.startswith("xpurun-stacks")], [])


class KilledRuns(attack.Case):
    RANKS = """
import os, subprocess, sys
ranks = [subprocess.Popen([sys.executable, "-c", sys.argv[1], str(i)],
         env={**os.environ, "RANK": str(i), "LOCAL_RANK": str(i), "WORLD_SIZE": "3"}) for i in range(3)]
sys.exit(max(r.wait() for r in ranks))
"""
    RANK = attack.HANG.replace("sys.argv[1]", "2.5") + "\nopen('done-' + sys.argv[1], 'w').close()"

    def test_case_43_a_killed_supervisor_harms_no_rank(self):
        seeded = random.Random(2)
        for i in range(30 if lane.LONG else 2):
            with self.subTest(round=i):
                for r in range(3):
                    (self.dir / f"done-{r}").unlink(missing_ok=True)
                process = self.start(
                    PROGRAM,
                    "--runs-dir",
                    self.dir / "runs",
                    "--hang-timeout",
                    "0.6",
                    "--",
                    PYTHON,
                    "-c",
                    self.RANKS,
                    self.RANK,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                time.sleep(0.55 + seeded.random() * 0.9)
                process.kill()
                process.wait()
                self.wait_for(lambda: all((self.dir / f"done-{r}").exists() for r in range(3)), "end of all ranks", 40)
                self.wait_for(lambda: not list(self.strays()), "nothing left behind", 40)

    @unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
    @lane.long
    def test_case_44_killed_rank_and_killed_launcher(self):
        for who in ("rank", "launcher"):
            with self.subTest(killed=who):
                self.out = self.dir / who
                process = self.start_xpurun(
                    "--",
                    *xpurun_test.torchrun(
                        self.dir / f"log-{who}", "--guilty", 9, "--fault", "sleep", "--steps", 100000, ranks=2
                    ),
                )
                pids = self.wait_for(lambda: len(self.rank_pids()) == 2 and self.rank_pids(), "ranks", 60)
                time.sleep(1)
                os.kill(pids[1] if who == "rank" else self.manifest()["main_pid"], signal.SIGKILL)
                _, err = process.communicate(timeout=120)
                self.assertEqual(process.returncode, 128 + signal.SIGKILL, err)
                if who == "rank":
                    self.assertEqual(self.verdict()["ranks"], [1], err)

    def test_case_62_a_kill_also_ends_daemons_that_ignore_term(self):
        code = (
            "import os, signal, time\nfor _ in range(3):\n    if os.fork() == 0:\n        os.setsid()\n        if"
            " os.fork(): os._exit(0)\n        signal.signal(signal.SIGTERM, signal.SIG_IGN)\n        time.sleep(300)\n"
            + attack.HANG
        )
        result = self.run_xpurun(
            "--hang-timeout",
            "1",
            "--on-hang",
            "kill",
            "--grace",
            "1s",
            "--",
            PYTHON,
            "-c",
            code,
            "200",
            env=self.rank_env(),
            timeout=90,
        )
        self.assertEqual(result.returncode, 124, result.stderr)
        self.assertEqual(list(self.strays()), [])


if __name__ == "__main__":
    attack.main()
