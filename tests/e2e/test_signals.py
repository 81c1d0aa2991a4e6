"""Signals from outside, the end of xpurun itself, and xpurun as PID 1."""

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
        self.assertEqual(self.manifest()["interrupt"], {"signal": signal.SIGTERM, "from_terminal": False})

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
