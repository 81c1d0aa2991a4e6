"""Signals from outside, the end of xpurun itself, and xpurun as PID 1."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import xpurun_test
from lane import long
from xpurun_test import PROGRAM, PYTHON

COUNT = r"""
import os, signal, sys, time
def got(number, frame):
    print("got", signal.Signals(number).name, flush=True)
for name in sys.argv[1].split(","):
    signal.signal(getattr(signal, name), got)
print("ready", flush=True)
for _ in range(int(sys.argv[2])):
    time.sleep(0.1)
sys.exit(5)
"""


class Forwarding(xpurun_test.Case):
    def test_each_signal_arrives_once(self):
        for name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGINT"):
            with self.subTest(signal=name):
                self.out = self.dir / name
                p = self.start_xpurun("--", PYTHON, "-c", COUNT, name, "8")
                self.assertEqual(p.stdout.readline(), "ready\n")
                p.send_signal(getattr(signal, name))
                self.assertEqual(p.stdout.read(), f"got {name}\n")
                self.assertEqual(p.wait(20), 5)

    def test_a_second_interrupt_kills_after_saying_so(self):
        p = self.start_xpurun("--", PYTHON, "-c", COUNT, "SIGINT", "300")
        p.stdout.readline()
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.stdout.readline(), "got SIGINT\n")
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(20), 137)
        self.assertIn("killing", p.stderr.read())

    def test_terminate_ends_like_the_command(self):
        p = self.start_xpurun("--", "sleep", "100")
        self.wait_for(lambda: (self.out / "run.json").exists() and self.manifest()["main_pid"], "main process")
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(20), 143)
        self.assertEqual(self.manifest()["outcome"], "interrupted")

    def test_a_signal_that_the_command_ignores(self):
        code = "import signal, time\nsignal.signal(2, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(100)"
        p = self.start_xpurun("--", PYTHON, "-c", code)
        self.assertEqual(p.stdout.readline(), "ready\n")
        p.send_signal(signal.SIGINT)
        self.assertRegex(p.stderr.readline(),
                         "the command ignores SIGINT: SIGTERM ends it, a second SIGINT within 30 s")
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(20), 143)
        self.assertRegex(self.verdict()["sentence"], "by SIGTERM after")


class Bystanders(xpurun_test.Case):
    def test_children_of_the_shell_that_became_xpurun(self):
        """bash replaces itself by the last command of a script, whose children then are those of xpurun."""
        copy = self.dir / "errors"
        script = f'exec "$@" 2> >(tee {copy} >&2)'
        job = [PYTHON, "-c", "import time\ntime.sleep(1000)"]
        words = [PROGRAM, "--out", self.out, "--hang-timeout", "2", "--on-hang", "kill", "--", *job]
        env = self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
        done = subprocess.run(["bash", "-c", script, "bash", *map(str, words)], env=env, stderr=subprocess.PIPE,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 124)
        self.assertIn("report: ", done.stderr)
        self.assertEqual(done.stderr, copy.read_text())
        self.assertNotIn("tee", [p["comm"] for p in self.manifest()["processes"]])


STANDS_STILL = """
import time
def read_image():
    time.sleep(1000)
read_image()
"""
WORKS = """
import time
end = time.monotonic() + 60
def train():
    while time.monotonic() < end:
        time.sleep(0.1)
train()
"""
CATCHES = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
def read_image():
    time.sleep(1000)
read_image()
"""
PROCESSES = """
import multiprocessing as mp, time
def read_image():
    time.sleep(1000)
def train(rank, barrier):
    if rank == 1:
        read_image()
    barrier.wait()
if __name__ == "__main__":
    barrier = mp.Barrier(3)
    ranks = [mp.Process(target=train, args=(r, barrier)) for r in range(3)]
    [r.start() for r in ranks]
    try:
        [r.join() for r in ranks]
    except KeyboardInterrupt:
        [r.terminate() for r in ranks]
"""
MANY = """
import os, signal, subprocess, sys, time
ranks = [subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(1000)"],
                          env={**os.environ, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": "64"})
         for r in range(64)]
def end(*_):
    print(time.monotonic(), flush=True)
    [r.kill() for r in ranks]
    os._exit(143)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
while True:
    signal.pause()
"""


OUTLIVES = """
import multiprocessing as mp, signal, sys, time
def work(rank, ready):
    if rank == 1:
        for name in sys.argv[1:]:
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    ready.release()
    while True:
        time.sleep(0.1)
if __name__ == "__main__":
    ready = mp.Semaphore(0)
    ps = [mp.Process(target=work, args=(rank, ready)) for rank in range(2)]
    [p.start() for p in ps]
    [ready.acquire() for p in ps]
    print("ready", flush=True)
    [p.join() for p in ps]
"""


class OutlivesTheCommand(xpurun_test.Case):
    """Processes that multiprocessing has started do not end with their parent."""

    def outlives(self, *ignored):
        job = self.dir / "train.py"
        job.write_text(OUTLIVES)
        p = self.start_xpurun("--", PYTHON, job, *ignored)
        self.assertEqual(p.stdout.readline(), "ready\n")
        self.wait_for(lambda: len(self.rank_pids()) == 2, "two ranks", 60)
        pids = self.rank_pids()
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(60), 143)
        self.assertEqual([pid for pid in pids.values() if self.is_running(pid)], [])
        return p.stderr.read()

    @staticmethod
    def is_running(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    def test_ranks_get_the_signal_that_has_reached_their_parent_alone(self):
        self.assertIn("ranks 0-1 have outlived the command: SIGTERM now, then SIGKILL", self.outlives())

    def test_a_rank_that_ignores_the_signal_is_named_and_killed(self):
        said = self.outlives("SIGTERM")
        self.assertIn("ranks 0-1 (rank 1 ignores SIGTERM) have outlived the command: SIGTERM now", said)


class Interrupted(xpurun_test.Case):
    """A job that stands still is judged before the signal goes on, long before --hang-timeout."""

    def interrupt(self, code, number):
        env = self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
        p = self.start_xpurun("--", PYTHON, "-c", code, env=env)
        self.wait_for(lambda: self.rank_pids().get(0), "rank 0")
        time.sleep(13)
        p.send_signal(number)
        self.assertEqual(p.wait(60), 128 + number)
        return p.stderr.read()

    def test_what_stood_still_is_told(self):
        said = self.interrupt(STANDS_STILL, signal.SIGTERM)
        self.assertRegex(said, r"interrupted: by SIGTERM after 1\d s, while rank 0 has been in read_image ")
        verdict = self.verdict()
        self.assertEqual((verdict["kind"], verdict["ranks"]), ("interrupted", [0]))
        interrupt = self.manifest()["interrupt"]
        self.assertEqual((interrupt["signal"], interrupt["from_terminal"]), (signal.SIGTERM, False))
        self.assertTrue(12 < interrupt["at_s"] < 20, interrupt)

    def hung_and_ended_well(self, number, *command):
        """The hang has been said, and the job ends with status 0 after the signal."""
        p = self.start_xpurun("--hang-timeout", 3, "--", *command)
        self.wait_for(lambda: (self.out / "run.json").exists() and [
            s for s in self.manifest()["stalls"] if s["verdict"]["kind"] == "hang"], "hang", 60)
        p.send_signal(number)
        self.assertEqual(p.wait(60), 0)
        verdict = self.verdict()
        self.assertEqual(verdict["id"], "interrupted.while_hung", json.dumps(verdict))
        return verdict

    def test_a_hung_job_that_catches_the_signal_was_interrupted(self):
        verdict = self.hung_and_ended_well(signal.SIGTERM, PYTHON, "-c", CATCHES)
        self.assertRegex(verdict["sentence"], r"^interrupted: by SIGTERM after \d+ s, while rank 0 has been in "
                                              r"read_image \(<string>:5(: time\.sleep)?\) for \d+ s")

    def test_hung_processes_whose_parent_hides_the_keyboard_interrupt(self):
        job = self.dir / "train.py"
        job.write_text(PROCESSES)
        verdict = self.hung_and_ended_well(signal.SIGINT, PYTHON, job)
        self.assertRegex(verdict["sentence"], r"^interrupted: by SIGINT after \d+ s, while rank 1 has been in "
                                              r"read_image \(train\.py:4: time\.sleep\) for \d+ s; ranks 0,2 wait ")

    def test_a_job_that_works_is_not_called_hung(self):
        said = self.interrupt(WORKS, signal.SIGTERM)
        self.assertNotIn("while", said)
        self.assertEqual(self.verdict()["id"], "interrupted.signal")
        self.assertEqual(self.manifest()["stalls"], [])


    @long
    def test_a_signal_does_not_wait_for_the_dumps_of_many_ranks(self):
        p = self.start_xpurun("--", PYTHON, "-c", MANY)
        self.assertEqual(p.stdout.readline(), "ready\n")
        self.wait_for(lambda: len(self.rank_pids()) == 64, "ranks")
        time.sleep(12)
        sent = time.monotonic()
        p.send_signal(signal.SIGTERM)
        self.assertLess(float(p.stdout.readline()) - sent, 0.1, "seconds; about 0.01 on an idle machine")
        self.assertEqual(p.wait(60), 143)
        self.assertEqual(self.verdict()["id"], "interrupted.signal")
        stall = self.manifest()["stalls"][0]
        self.assertEqual((len(stall["ranks"]), stall["dump"]), (64, "dumps/1-hang"))


class OwnDeath(xpurun_test.Case):
    def test_sigkill_of_xpurun_leaves_the_training_alone_and_the_directory_readable(self):
        log = self.dir / "steps"
        script = ("import time, sys\nfor i in range(40):\n    print(i, file=open(sys.argv[1], 'a'))\n"
                  "    time.sleep(0.1)\n")
        p = self.start_xpurun("--hang-timeout", "60", "--", PYTHON, "-c", script, log)
        self.wait_for(lambda: log.exists() and len(log.read_text().split()) > 5 and self.rank_pids(), "steps")
        p.kill()
        p.wait()
        report = subprocess.run([PROGRAM, "report", self.out], capture_output=True, text=True)
        self.assertEqual(report.returncode, 0, report.stderr)
        self.assertTrue((self.out / "report.html").exists())
        self.wait_for(lambda: len(log.read_text().split()) == 40, "end of the training without xpurun")

    def test_a_crash_without_the_supervisor_does_not_wait_for_it(self):
        script = "import os, sys, time; time.sleep(1.5); os.abort()"
        p = self.start_xpurun("--crash-wait", "30s", "--", PYTHON, "-c", script)
        pid = self.wait_for(lambda: self.rank_pids().get(0), "rank 0")
        p.kill()
        p.wait()
        start = time.monotonic()
        self.wait_for(lambda: not pathlib.Path(f"/proc/{pid}").exists(), "end of the crashed process", 15)
        self.assertLess(time.monotonic() - start, 10)


class AsPid1(xpurun_test.Case):
    def test_reaps_forwards_and_passes_the_status_on(self):
        if shutil.which("unshare") is None:
            self.skipTest("needs unshare")
        unshare = ["unshare", "-pf", "--mount-proc"]
        if subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
            self.skipTest("may not create a PID namespace")
        # An orphan that ends while the command runs must not stay a zombie.
        script = "(sleep 0.2 &) ; sleep 1; ps -eo stat= | grep -c '^Z'; exit 7"
        result = subprocess.run([*unshare, *self.command("--", "bash", "-c", script)], capture_output=True,
                                text=True, cwd=self.dir, env=self.env(), timeout=60)
        self.assertEqual((result.stdout, result.returncode), ("0\n", 7), result.stderr)

    def test_terminate_reaches_the_command(self):
        unshare = ["unshare", "-pf", "--mount-proc"]
        if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], capture_output=True).returncode:
            self.skipTest("may not create a PID namespace")
        p = subprocess.Popen([*unshare, *self.command("--", PYTHON, "-c", COUNT, "SIGTERM", "100")],
                             stdout=subprocess.PIPE, text=True, cwd=self.dir, env=self.env())
        self.started.append(p)
        p.stdout.readline()
        inner = int(subprocess.run(["pgrep", "-P", str(p.pid)], capture_output=True, text=True).stdout)
        os.kill(inner, signal.SIGTERM)
        self.assertEqual(p.stdout.readline(), "got SIGTERM\n")


if __name__ == "__main__":
    xpurun_test.main()
