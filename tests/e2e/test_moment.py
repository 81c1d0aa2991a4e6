"""What is known is said when it is known: early, at once, and at the end of a job that was slow."""

import contextlib
import json
import os
import re
import signal
import subprocess
import unittest
from pathlib import Path

import xpurun_test
from lane import long
from test_mpi import MpiCase
from xpurun_test import PYTHON

STEPS = """
import multiprocessing as mp, sys, time, xpurun
def load(path):
    with open(path, "rb") as f:
        return f.read()
def train(rank, barrier):
    for step in range(900):
        barrier.wait()
        xpurun.step()
        time.sleep(0.005)
        if step == 120 and rank == 1:
            load(sys.argv[1])
if __name__ == "__main__":
    barrier = mp.Barrier(2)
    ranks = [mp.Process(target=train, args=(r, barrier)) for r in range(2)]
    [r.start() for r in ranks]; [r.join() for r in ranks]
"""

ALONE = """
import sys, time, xpurun
def load(path):
    with open(path, "rb") as f:
        return f.read()
def train(rank, meet):
    for step in range(900):
        meet()
        xpurun.step()
        time.sleep(0.005)
        if step == 120 and rank == int(sys.argv[2]):
            load(sys.argv[1])
if sys.argv[2] == "0":
    train(0, lambda: None)
else:
    import torch.distributed as dist
    dist.init_process_group("gloo")
    train(dist.get_rank(), dist.barrier)
"""

SLOWER = """
import time, xpurun
for step in range(400):
    time.sleep(0.005 if step < 200 else 0.015)
    xpurun.step()
"""

SLOWER_PROCESSES = """
import multiprocessing as mp, time, xpurun
def train(barrier):
    for step in range(1800):  # the parent counts as a launcher once it has waited for 6 s
        barrier.wait()
        time.sleep(0.005 if step < 1300 else 0.015)
        xpurun.step()
if __name__ == "__main__":
    barrier = mp.Barrier(2)
    ranks = [mp.Process(target=train, args=(barrier,)) for r in range(2)]
    [r.start() for r in ranks]; [r.join() for r in ranks]
"""

SPELL = """
import time, xpurun
def rebuild():
    time.sleep(0.03)
for step in range(600):
    time.sleep(0.005)
    if 200 <= step < 400:
        rebuild()
    xpurun.step()
"""

LEAKS = """
import time, xpurun
kept = []
for step in range(450):
    kept.append(bytearray(2**20))
    time.sleep(0.1)
    xpurun.step()
"""

STUCK = """
import time
def read_image():
    time.sleep(1000)
print("ready", flush=True)
read_image()
"""


class MomentCase(xpurun_test.Case):
    def write(self, name, text):
        path = self.dir / name
        path.write_text(text)
        return path

    def lines(self, process, until):
        out = []
        for line in process.stderr:
            out.append(line)
            if until in line:
                return "".join(out)
        self.fail(f"no line with {until!r}: {out}")

    def fifo(self):
        pipe = self.dir / "image.bin"
        subprocess.run(["mkfifo", pipe], check=True)
        return pipe

    def check(self, rank, place, *command, env=None):
        run = self.start_xpurun("--hang-timeout", 300, "--slow-capture", "1s", "--", *command, env=env)
        self.assertRegex(self.lines(run, "xpurun: stall: "), rf"xpurun: stall: rank {rank} is stuck in {place}")
        stall, = self.wait_for(lambda: [s for s in self.manifest()["stalls"] if s["verdict"]["kind"] == "hang"],
                               "stall")
        self.assertTrue(stall["early"])
        now = self.run_xpurun("attach", "--now", self.rank_pids()[rank], out=False, timeout=60)
        self.assertRegex(now.stdout, rf"xpurun: running: rank {rank} .*{place}")
        run.send_signal(signal.SIGTERM)
        said = run.communicate(timeout=60)[1]
        verdict = self.verdict()
        detail = json.dumps(verdict, indent=1) + said
        self.assertEqual((verdict["kind"], verdict["ranks"]), ("interrupted", [rank]), detail)
        self.assertRegex(verdict["sentence"],
                         rf"^interrupted: by SIGTERM after \d+ s, while rank {rank} has been in {place}", detail)


class EachMoment(MomentCase):
    """Early, now and at a signal, in one job of each launcher; of multiprocessing below and in test_signals.py."""

    def test_a_single_process(self):
        self.check(0, r"load \(alone\.py:4", PYTHON, self.write("alone.py", ALONE), self.fifo(), 0,
                   env=self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1"))

    @unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
    def test_torchrun(self):
        job = self.write("alone.py", ALONE)
        self.check(1, r"load \(alone\.py:4", *xpurun_test.torchrun(self.dir / "log", self.fifo(), 1, ranks=2, job=job))


class EachMomentOfMpi(MpiCase, MomentCase):
    def test_mpirun(self):
        self.check(1, r"image \(mpi_faults\.c:", *self.programs[0], "image", self.fifo(), env=self.mpi_env())


    @staticmethod
    def ranks_of(program):
        """The three processes, each of which has initialised the library."""
        pids = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(process / "exe") == program and b"libmpi" in (process / "maps").read_bytes():
                    pids.append(process.name)
        return pids if len(pids) == 3 else []

    def now(self, mpi, fault):
        job = subprocess.Popen([*self.programs[mpi], fault], cwd=self.dir, env=self.mpi_env(), start_new_session=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.started.append(job)
        pids = self.wait_for(lambda: self.ranks_of(self.programs[mpi][-1]), "ranks")
        result = self.run_xpurun("attach", "--now", "--out", self.out, *pids, out=False, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.verdict()["sentence"]

    def test_now_of_ranks_that_spin_in_a_library(self):
        for mpi in range(len(self.programs)):
            with self.subTest(self.programs[mpi][0]):
                self.assertRegex(self.now(mpi, "collective"),
                                 r"ranks? \d.* MPI_(Allreduce|Comm_split) .*mpi_faults\.c:\d+")


class Moment(MomentCase):
    @long
    def test_memory_that_grows_is_a_finding(self):
        run = self.run_xpurun("--", PYTHON, self.write("train.py", LEAKS))
        self.assertEqual(0, run.returncode, run.stderr)
        report = json.loads((self.out / "report.json").read_text())
        found = [f for f in report["findings"] if f["id"] == "memory.growth"]
        self.assertEqual(1, len(found), report["findings"])
        self.assertRegex(found[0]["evidence"][0], r"^rank 0: (0\.9|1\.[01]) MiB a step, from ")

    def test_a_silence_is_told_before_the_hang_timeout(self):
        pipe = self.fifo()
        job = self.write("train.py", STEPS)
        told = self.dir / "told"
        run = self.start_xpurun("--hang-timeout", 300, "--slow-capture", "1s", "--on-hang", "kill",
                                "--on-event", f"cat >> {told}", "--",
                                PYTHON, job, pipe)
        early = self.lines(run, "xpurun: stall: ")
        self.assertRegex(early, r"xpurun: stall: rank 1 is stuck in load \(train\.py:4: open( \S*image\.bin)?\) since ")
        stall = self.wait_for(lambda: [s for s in self.manifest()["stalls"] if s["verdict"]["kind"] == "hang"],
                              "stall")[0]
        self.assertTrue(stall["early"])
        self.assertEqual(stall["verdict"]["level"], "suspected")
        self.assertRegex(stall["verdict"]["sentence"],
                         r"^stall: rank 1 has been in load \(train\.py:4: open \S*image\.bin\) for "
                         r"1\d s; no process has opened the other end of this FIFO; rank 0 waits for it in "
                         r"multiprocessing wait \(train\.py:8\)")
        # Slow steps of a busy machine are events, too.
        self.wait_for(lambda: told.exists() and re.search(r'"event": ?"stall"', told.read_text()), "event")
        # A look from outside is a verdict at once, and does not change the job.
        pids = self.rank_pids()
        now = self.run_xpurun("attach", "--now", pids[1], out=False, timeout=30)
        self.assertEqual(now.returncode, 0, now.stderr)
        self.assertRegex(now.stdout, r"xpurun: running: rank 1 .*load \(train\.py:4: open \S*image\.bin\)")
        # The pause ends, and so does the stall: it was none.
        with open(pipe, "wb") as end:
            end.write(b"x")
        self.lines(run, "xpurun: progress again")
        run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0)
        # Steps may be slow on a machine with other work.
        self.assertIn(self.verdict()["kind"], ("none", "slow"))

    def test_steps_that_became_longer_are_a_verdict(self):
        result = self.run_xpurun("--", PYTHON, self.write("slower.py", SLOWER),
                                 env=self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1"))
        verdict = self.verdict()
        detail = json.dumps(verdict, indent=1) + result.stderr
        self.assertEqual(result.returncode, 0, detail)
        self.assertEqual((verdict["kind"], verdict["id"], verdict["level"]), ("slow", "slow.job", "suspected"), detail)
        self.assertGreater(verdict["slow"]["share"], 0.3, detail)
        self.assertIn(verdict["slow"]["step"], range(90, 206), detail)
        self.assertRegex(result.stderr, r"xpurun: slow: the job has been \d+ % slower since step \d+ ")
        runs = self.run_xpurun("runs", "show", self.out, out=False)
        self.assertIn("slow: the job has been", runs.stdout + runs.stderr)
        self.assertIn('class="verdict suspected"', (self.out / "report.html").read_text())

    def test_slow_steps_of_other_launchers(self):
        jobs = {"processes": [PYTHON, self.write("processes.py", SLOWER_PROCESSES)]}
        if xpurun_test.have_torch():
            jobs["torchrun"] = xpurun_test.torchrun(self.dir / "log", ranks=2, job=self.write("slower.py", SLOWER))
        runs = {name: self.start_xpurun("--out", self.dir / name, "--", *command, out=False)
                for name, command in jobs.items()}
        for name, run in runs.items():
            with self.subTest(name):
                said = run.communicate(timeout=90)[1]
                self.out = self.dir / name
                verdict = self.verdict()
                detail = json.dumps(verdict, indent=1) + said
                self.assertEqual((run.returncode, verdict["kind"]), (0, "slow"), detail)
                self.assertRegex(said, r"xpurun: slow: the job has been \d+ % slower since step [\d,]+ ", detail)

    def test_slow_steps_that_are_over_are_a_verdict(self):
        result = self.run_xpurun("--", PYTHON, self.write("spell.py", SPELL),
                                 env=self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1"))
        verdict = self.verdict()
        detail = json.dumps(verdict, indent=1) + result.stderr
        self.assertEqual(result.returncode, 0, detail)
        known = (verdict["kind"], verdict["id"], verdict["level"])
        self.assertEqual(known, ("slow", "slow.spell", "suspected"), detail)
        self.assertIn(verdict["slow"]["step"], range(190, 215), detail)
        self.assertIn(verdict["slow"]["until_step"], range(390, 415), detail)
        self.assertRegex(result.stderr, r"xpurun: slow: the job was \d+ % slower from step \d+ to step \d+ ")
        self.assertRegex(result.stderr, r"per step, [\d.]+ s in all")
        self.assertNotIn("while the job runs", result.stderr)
        runs = self.run_xpurun("runs", "show", self.out, out=False)
        self.assertIn("slow: the job was", runs.stdout + runs.stderr)
        written = (self.out / "verdict.json").stat().st_mtime_ns
        steps = self.run_xpurun("report", self.out, "--steps-only", out=False)
        self.assertIn("slow: the job was", steps.stdout)
        self.assertEqual((self.out / "verdict.json").stat().st_mtime_ns, written)
        markdown = self.run_xpurun("report", self.out, "--format", "markdown", out=False)
        self.assertIn("the job was", markdown.stdout)
        self.assertIn('class="verdict suspected"', (self.out / "report.html").read_text())

    def test_the_steps_of_a_job_that_runs_are_judged(self):
        run = self.start_xpurun("--", PYTHON, self.write("slower.py", SLOWER.replace("range(400)", "range(4000)")),
                                env=self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1"))

        def judged():
            # The supervisor saves run.json before it asks.
            said = self.run_xpurun("report", self.out, "--steps-only", "--quiet", "--json", out=False)
            verdict = json.loads(said.stdout.splitlines()[0]) if said.stdout else {}
            return verdict.get("kind") == "slow" and verdict
        verdict = self.wait_for(judged, "verdict on the steps")
        self.assertIn(verdict["slow"]["step"], range(90, 206), verdict)
        self.assertFalse((self.out / "verdict.json").exists())
        run.terminate()
        run.communicate(timeout=60)

    def test_now_of_a_hang_that_is_known(self):
        env = self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
        run = self.start_xpurun("--hang-timeout", 2, "--", PYTHON, self.write("stuck.py", STUCK), env=env)
        self.lines(run, "xpurun: hang: ")
        self.wait_for(lambda: [s for s in self.manifest()["stalls"] if s["verdict"]["kind"] == "hang"], "stall")
        now = self.run_xpurun("attach", "--now", self.rank_pids()[0], out=False, timeout=60)
        self.assertRegex(now.stdout, r"xpurun: hang: rank 0 has been in read_image \(stuck\.py:4: time\.sleep\) for")
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=60)

    def test_a_look_at_processes_without_xpurun(self):
        job = subprocess.Popen([PYTHON, self.write("stuck.py", STUCK)], env=self.env(RANK="3", WORLD_SIZE="8"),
                               text=True, stdout=subprocess.PIPE)
        self.started.append(job)
        self.assertEqual(job.stdout.readline(), "ready\n")
        now = self.run_xpurun("attach", "--now", job.pid, out=False, timeout=30)
        self.assertRegex(now.stderr, r"xpurun: running: .*read_image \(stuck\.py:4: time\.sleep\)")
        self.assertIsNone(job.poll())


if __name__ == "__main__":
    xpurun_test.main()
