"""xpurun record: profiles of live processes, for every CPython of this machine."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import xpurun_test
from lane import LONG
from stackdump_live import PYTHONS

JOB = """
import os, sys, threading, time

def inner(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass

def slow():
    inner(0.03)

def fast():
    inner(0.01)

def waits():
    time.sleep(1000)

def main():
    threading.Thread(target=waits, name="loader", daemon=True).start()
    print("ready", flush=True)
    while True:
        if os.environ.get("RANK") == "2":
            time.sleep(0.02)
        slow()
        fast()

main()
"""

# The two functions of torch that a call of a module passes through. In the second one, `self` may be in a cell.
MODULE = """
class Module:
    def __call__(self, x):
        return self._wrapped_call_impl(x)
    def _wrapped_call_impl(self, x):
        return self._call_impl(x)
    def _call_impl(self, x):
        def inner():
            return self.forward(x)
        return inner()
"""

NET = """
import time
from torch.nn.modules.module import Module

class Mlp(Module):
    def forward(self, x):
        end = time.perf_counter() + x
        while time.perf_counter() < end:
            pass

class Net(Module):
    def __init__(self):
        self.mlp = Mlp()
    def forward(self, x):
        self.mlp(x)

print("ready", flush=True)
net = Net()
while True:
    net(0.01)
"""

# Most of the time goes into one operation forward and one backward.
TORCH = """
import torch

def train():
    net = torch.nn.Sequential(torch.nn.Linear(600, 600))
    x = torch.randn(600, 600)
    while True:
        net(x).sum().backward()

torch.set_num_threads(1)
print("ready", flush=True)
train()
"""


class Record(xpurun_test.Case):
    def start(self, python=sys.executable, text=JOB, **env):
        script = self.dir / "job.py"
        script.write_text(text)
        process = subprocess.Popen([python, str(script)], stdout=subprocess.PIPE, text=True, cwd=self.dir,
                                   env=self.env(**env))
        self.started.append(process)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def record(self, *args, status=0):
        result = self.run_xpurun("record", *args, out=False)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def shares(self, *args):
        """{function: share of the samples below which it is}, from folded stacks."""
        total, below = 0, {}
        for line in self.record("--format", "folded", *args).stdout.splitlines():
            stack, count = line.rsplit(" ", 1)
            total += int(count)
            for function in {frame.split(" (")[0] for frame in stack.split(";")[1:]}:
                below[function] = below.get(function, 0) + int(count)
        return total, {function: count / total for function, count in below.items()}

    def test_off_cpu(self):
        process = self.start()
        text = self.record("--format", "folded", "--off-cpu", "--threads", "all", "--pid", process.pid, "-d", "2s")
        sleeping = [line for line in text.stdout.splitlines() if "waits" in line]
        self.assertEqual(len(sleeping), 1, text.stdout)
        self.assertRegex(sleeping[0], r"/ loader;.*waits \(job.py\);\[sleep\] \d+$")
        # The main thread spins: it is on a CPU, or ready to run if this machine has other work.
        for line in text.stdout.splitlines():
            if "MainThread" in line:
                self.assertIn("[run queue]", line)
        self.assertRegex(text.stderr, r"\d+ of \d+ samples were on a CPU and are left out")

    def test_every_version(self):
        found = [(version, python) for version, python in sorted(PYTHONS.items()) if python is not None]
        for version, python in found if LONG else found[-1:]:
            with self.subTest(version=version):
                process = self.start(python)
                total, shares = self.shares("--pid", process.pid, "-d", "2s")
                self.assertGreater(total, 50)
                self.assertGreater(shares["main"], 0.95)
                # The program spends three quarters in slow(), one quarter in fast().
                self.assertAlmostEqual(shares["slow"], 0.75, delta=0.15)
                self.assertAlmostEqual(shares["fast"], 0.25, delta=0.15)
                self.assertNotIn("waits", shares)
                process.kill()

    def test_modules_of_torch_by_their_class(self):
        folder = self.dir / "torch/nn/modules"
        folder.mkdir(parents=True)
        for package in ("torch", "torch/nn", "torch/nn/modules"):
            (self.dir / package / "__init__.py").touch()
        (folder / "module.py").write_text(MODULE)
        found = [(version, python) for version, python in sorted(PYTHONS.items()) if python is not None]
        for version, python in found if LONG else found[:1] + found[-1:]:
            with self.subTest(version=version):
                process = self.start(python, NET)
                _, shares = self.shares("--pid", process.pid, "-d", "1s")
                self.assertGreater(shares["nn.Module: Net"], 0.9)
                self.assertGreater(shares["nn.Module: Mlp"], 0.9)
                process.kill()

    def test_native_functions(self):
        process = self.start()
        text = self.record("--native", "--pid", process.pid, "-d", "1s", "--threads", "all", "-f", "folded").stdout
        sleeping = [line for line in text.splitlines() if "/ loader;" in line]
        self.assertEqual(len(sleeping), 1, text)
        self.assertRegex(sleeping[0], r"waits \(job.py\);[^;]*nanosleep[^;]* \(libc\.so\.6\) \d+$")
        self.assertNotIn("_PyEval", text)
        result = self.run_xpurun("record", "--pid", process.pid, "--native", "--off-cpu", out=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("--off-cpu and --native exclude each other", result.stderr)
        # SIGKILL ends the process some time after kill(2) has returned.
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        result = self.run_xpurun("record", "--pid", process.pid, "--native", out=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("zombie", result.stderr)

    @unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
    def test_operations_of_torch(self):
        process = self.start(xpurun_test.PYTHON, TORCH)
        # Each has a good part of the time.
        wanted = {r"train \(job.py\);nn.Module: Sequential \(module.py\);Sequential.forward \(container.py\);"
                  r"nn.Module: Linear \(module.py\);Linear.forward \(linear.py\);aten::linear;aten::addmm[; ]",
                  r"train \(job.py\);.*backward .*;autograd: AddmmBackward0;aten::mm[; ]"}
        text = ""
        deadline = time.monotonic() + 60
        while wanted and time.monotonic() < deadline:
            text = self.record("--native", "--format", "folded", "--pid", process.pid, "-d", "2s", "-r", "20").stdout
            self.assertNotIn("libtorch", text)
            self.assertNotIn("_PyObject", text)
            wanted = {path for path in wanted if re.search(path, text) is None}
        self.assertFalse(wanted, text)

    def test_threads(self):
        process = self.start()
        text = self.record("--pid", process.pid, "-d", "1s", "--threads", "all", "--format", "folded").stdout
        self.assertIn("/ loader;", text)
        self.assertIn("waits (job.py)", text)
        text = self.record("--pid", process.pid, "-d", "1s", "--threads", "gil", "--format", "folded").stdout
        self.assertNotIn("waits (job.py)", text)
        self.assertIn("inner (job.py)", text)

    def test_ranks_compared(self):
        ranks = [self.start(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="3") for rank in range(3)]
        pids = ",".join(str(p.pid) for p in ranks)
        text = self.record("--pid", pids, "-d", "2s", "--compare", "2").stdout
        self.assertRegex(text, r"Profile of 3 ranks: \d+ samples in 2")
        compared = text.split("Ranks 2 compared with ranks 0-1")[1]
        self.assertRegex(compared, r"(?m)^ *\+\d+\.\d% +\d+\.\d% +0\.\d%  main \(job\.py\)$")

    def test_files(self):
        process = self.start()
        for name in ("p.svg", "p.speedscope.json", "p.folded"):
            self.record("--pid", process.pid, "-d", "500ms", "-o", name)
        self.assertIn("width is samples", (self.dir / "p.svg").read_text())
        self.assertIn("slow (job.py)", (self.dir / "p.svg").read_text())
        scope = json.loads((self.dir / "p.speedscope.json").read_text())
        profile = scope["profiles"][0]
        self.assertEqual(len(profile["samples"]), len(profile["weights"]))
        self.assertAlmostEqual(sum(profile["weights"]), profile["endValue"], places=6)
        names = {scope["shared"]["frames"][frame]["name"] for stack in profile["samples"] for frame in stack}
        self.assertTrue({"main", "inner"} <= names, names)
        self.assertIn("inner (job.py)", (self.dir / "p.folded").read_text())
        self.assertIsNone(process.poll())

    def samples(self, recording):
        """Waits until the recorder has taken samples: it blocks the signals, then sleeps before each sample."""
        def status():
            text = Path(f"/proc/{recording.pid}/status").read_text()
            return dict(line.split(":\t", 1) for line in text.splitlines())
        blocked = 1 << (signal.SIGINT - 1)
        self.wait_for(lambda: int(status()["SigBlk"], 16) & blocked, "first sample")
        begin = int(status()["voluntary_ctxt_switches"])
        self.wait_for(lambda: int(status()["voluntary_ctxt_switches"]) >= begin + 5, "samples")

    def test_an_interrupt_keeps_the_samples(self):
        process = self.start()
        recording = self.start_xpurun("record", "--pid", process.pid, "-d", "100s", out=False)
        self.samples(recording)
        recording.send_signal(signal.SIGINT)
        stdout, stderr = recording.communicate(timeout=20)
        self.assertEqual(recording.returncode, 0, stderr)
        self.assertIn("inner (job.py)", stdout)
        self.assertIn("ended early by a signal", stderr)

    def test_the_end_of_the_process_ends_the_recording(self):
        process = self.start()
        recording = self.start_xpurun("record", "--pid", process.pid, "-d", "100s", out=False)
        self.samples(recording)
        process.kill()
        process.wait()
        stdout, stderr = recording.communicate(timeout=20)
        self.assertEqual(recording.returncode, 0, stderr)
        self.assertIn("inner (job.py)", stdout)

    def test_errors(self):
        sleeper = subprocess.Popen(["sleep", "100"])
        self.started.append(sleeper)
        for words, status, text in (([], 2, "nothing to record"), (["4711"], 2, "unknown option"),
                                    (["--pid", "x"], 2, "not a process id"),
                                    (["--pid", str(sleeper.pid), "-d", "1s"], 1, "E-NO-PYTHON"),
                                    (["--pid", "1", "--rate", "5000"], 2, "--rate from 1 to 1000"),
                                    (["--pid", "1", "--compare", "x"], 2, "is no list of ranks"),
                                    (["--pid", "1", "--compare", "2", "-f", "folded"], 2, "not folded"),
                                    (["--pid", "1", "--compare", "2", "-o", "x.profile.json"], 2, "not json"),
                                    (["--run", "nowhere"], 1, "nowhere")):
            with self.subTest(words=words):
                self.assertIn(text, self.record(*words, status=status).stderr)
        process = self.start()
        result = self.record("--pid", process.pid, "-d", "300ms", "--compare", "7", status=1)
        self.assertIn("rank 7 was not recorded", result.stderr)
        result = self.record("--pid", process.pid, "-d", "300ms", "-o", "missing/x.svg", status=1)
        self.assertIn("missing", result.stderr)


if __name__ == "__main__":
    xpurun_test.main()
