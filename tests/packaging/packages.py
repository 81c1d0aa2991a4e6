"""Shared code of the tests of packages: what is in dist/, a clean environment, and the short jobs that an installed
xpurun must handle."""

import ctypes
import json
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["XPURUN_TEST_SOURCE"])
BUILD = pathlib.Path(os.environ["XPURUN_TEST_BUILD"])
DIST = pathlib.Path(os.environ.get("XPURUN_TEST_DIST", SOURCE / "dist"))

PRELOADED = "import sys; sys.exit(3 if 'libxpurun_preload.so' in open('/proc/self/maps').read() else 4)"
HANGS = "import time\ndef read_shard():\n    time.sleep(1000)\nread_shard()"
ENDS_ON_SIGTERM = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("ready", flush=True)
while True:
    time.sleep(0.05)  # pause() would sleep on if the signal came just before
"""
# Rank 1 never comes to the meeting that rank 0 waits in.
TWO = """
import multiprocessing, os, time
def read_shard():
    time.sleep(1000)
def work(rank, barrier):
    os.environ["RANK"] = str(rank)
    if rank == 1:
        read_shard()
    barrier.wait()
if __name__ == "__main__":
    barrier = multiprocessing.Barrier(2)
    ranks = [multiprocessing.Process(target=work, args=(rank, barrier)) for rank in range(2)]
    [rank.start() for rank in ranks]
    [rank.join() for rank in ranks]
"""


def refuse_new_system_calls():
    """In a child before exec: the kernel of RHEL 8 (Linux 4.18) knows no system call after number 334."""
    steps = [(0x20, 0, 0, 0),  # the number
             (0x35, 0, 1, 335),  # not below this one
             (0x06, 0, 0, 0x00050000 | 38),  # ENOSYS
             (0x06, 0, 0, 0x7FFF0000)]  # allowed
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    # PR_SET_NO_NEW_PRIVS, then PR_SET_SECCOMP with a filter.
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no filter of system calls")


def only(pattern):
    """The one file in dist/ that matches."""
    found = list(DIST.glob(pattern))
    assert len(found) == 1, f"one {pattern} expected in {DIST}, found {found}"
    return found[0]


def files_below(root):
    """Every file and folder, relative to root."""
    return {str(path.relative_to(root)) for path in pathlib.Path(root).rglob("*")}


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="xpurun-packages-")
        self.addCleanup(scratch.cleanup)
        self.dir = pathlib.Path(scratch.name)
        # Nothing of the host's configuration, and no tool from a build tree by accident.
        self.env = {"PATH": "/usr/bin:/bin", "HOME": scratch.name, "LC_ALL": "C.UTF-8"}

    def run_in_dir(self, *command, **more):
        return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              **{"cwd": self.dir, "env": self.env, "check": False, "timeout": 120, **more})

    def succeed(self, *command, **more):
        result = self.run_in_dir(*command, **more)
        self.assertEqual(result.returncode, 0, f"{command}\n{result.stdout}{result.stderr}")
        return result.stdout

    def check_program(self, xpurun, version, python):
        """An installed xpurun starts a job with its library, passes on signals and statuses, and judges a hang."""
        self.assertEqual(xpurun.read_bytes()[:4], b"\x7fELF")  # no interpreter starts before it
        self.assertIn(version, self.succeed(xpurun, "--version"))
        runs = pathlib.Path(tempfile.mkdtemp(prefix="runs-", dir=self.dir))
        done = self.run_in_dir(xpurun, "--out", runs / "healthy", "--", python, "-c", PRELOADED)
        self.assertEqual(done.returncode, 3, done.stderr)
        # The verdict alone: no warning, and no line of the loader.
        self.assertRegex(done.stderr, r"\Axpurun: exit: .*sys\.exit\(3\).*\nxpurun: report: .*\n\Z")
        # As in a shell: the status of a process that died of a signal.
        done = self.run_in_dir(xpurun, "--out", runs / "killed", "--", "sh", "-c", "kill -9 $$")
        self.assertEqual(done.returncode, 128 + signal.SIGKILL, done.stderr)
        self.check_signal(xpurun, python, runs / "signal")
        self.check_hang(xpurun, python, runs / "hang")

    def check_hang_of_two(self, xpurun, run, **more):
        """The rank that does not come is named, and its job is ended."""
        script = self.dir / "two.py"
        script.write_text(TWO)
        done = self.run_in_dir(xpurun, "--out", run, "--hang-timeout", "2", "--on-hang", "kill", "--", "python3",
                               script, **more)
        self.assertEqual(done.returncode, 124, done.stderr)
        verdict = json.loads((self.dir / run / "verdict.json").read_text())
        self.assertEqual((verdict["kind"], verdict["where"]["function"]), ("hang", "read_shard"), verdict)

    def check_signal(self, xpurun, python, run):
        command = [xpurun, "--out", run, "--", python, "-c", ENDS_ON_SIGTERM]
        with subprocess.Popen([str(word) for word in command], cwd=self.dir, env=self.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            self.addCleanup(process.kill)
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.terminate()
            _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 7, stderr)

    def check_hang(self, xpurun, python, run):
        # A rank by its environment, as torchrun sets it.
        done = self.run_in_dir(xpurun, "--out", run, "--hang-timeout", "1", "--on-hang", "kill", "--", python, "-c",
                               HANGS, env={**self.env, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"})
        self.assertEqual(done.returncode, 124, done.stderr)
        verdict = json.loads((run / "verdict.json").read_text())
        self.assertEqual((verdict["kind"], verdict["where"]["function"]), ("hang", "read_shard"), verdict)
        self.assertIn("<html", (run / "report.html").read_text())
