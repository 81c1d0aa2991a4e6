"""A stalled or full disk: the job is not affected, and the verdict is still printed."""

import ctypes
import errno
import fcntl
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import termios
import time

import xpurun_test
from xpurun_test import PROGRAM, PYTHON, SOURCE

ONE_SIGNAL = """
import signal, sys, time
def got(number, frame):
    print("got", flush=True)
    sys.exit(5)
signal.signal(signal.SIGTERM, got)
print("ready", flush=True)
while True:
    time.sleep(0.01)  # pause() would sleep on if the signal came just before
"""
TIME_OF_SIGNALS = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: print(time.monotonic_ns(), flush=True))
print("ready", flush=True)
while True:
    time.sleep(0.01)
"""
HANG = """
import threading
lock = threading.Lock()
def train():
    print("ready", flush=True)
    lock.acquire()
    lock.acquire()
train()
"""
# Seconds from kill() to the job's handler.
FORWARDED_WITHIN_NS = 100_000_000
TRIES = 31
# A stall lasts until the test ends it, so anything that arrives did not wait for the disk.
SECONDS = 60
PIDFD_GETFD = 438  # the system call


def descriptors(pid):
    """(number, target) of each descriptor of the process; one that is closed meanwhile is left out."""
    for path in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            yield int(path.name), os.readlink(path)
        except FileNotFoundError:
            pass


class Stalls:
    """Tests for every kind of stalled disk; the subclass defines stall() and go_on()."""

    def stall_and_write(self):
        """When it returns, an operation of the supervisor waits for the disk."""
        control = socket.socket(socket.AF_UNIX)
        self.addCleanup(control.close)
        control.connect(self.wait_for(self.control, "control socket"))
        self.stall()
        control.sendall(b'{"cmd":"dump"}\n')
        self.wait_for(self.something_waits, "operation that waits for the disk")

    def recorded(self, name):
        """A field of run.json; None while the file system does not show the file."""
        try:
            return self.manifest().get(name)
        except (OSError, ValueError):
            return None

    def control(self):
        return self.recorded("control")

    def test_a_signal_reaches_the_job_and_its_status_comes_back(self):
        p = self.start_xpurun("--", PYTHON, "-c", ONE_SIGNAL)
        self.assertEqual(p.stdout.readline(), "ready\n")
        self.stall_and_write()
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.stdout.readline(), "got\n")
        self.assertEqual(p.wait(SECONDS), 5)
        # Readers of the job's output do not wait either.
        self.assertEqual(p.stdout.read(), "")
        p.stderr.read()
        self.go_on()
        self.wait_for(lambda: self.recorded("exit_status") == 5, "last run.json", SECONDS)

    def test_a_signal_is_forwarded_at_once(self):
        p = self.start_xpurun("--", PYTHON, "-c", TIME_OF_SIGNALS)
        self.assertEqual(p.stdout.readline(), "ready\n")
        self.stall_and_write()
        delays = []
        for _ in range(TRIES):
            sent = time.monotonic_ns()
            p.send_signal(signal.SIGTERM)
            delays.append(int(p.stdout.readline()) - sent)
        # A busy machine delays some signals; a stall that blocks the supervisor would delay every signal.
        self.assertLess(statistics.median(delays), FORWARDED_WITHIN_NS, delays)
        self.go_on()

    def test_a_hang_is_told_and_ended(self):
        p = self.start_xpurun("--hang-timeout", "2", "--on-hang", "kill", "--grace", "1s", "--", PYTHON, "-c", HANG,
                              env=self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1"))
        self.assertEqual(p.stdout.readline(), "ready\n")
        self.wait_for(self.rank_pids, "rank")
        self.stall()
        said = p.stderr.read()
        self.assertEqual(p.wait(SECONDS), 124, said)
        self.assertRegex(said, r"xpurun: hang: rank 0 has been in train \(<string>:7")
        self.assertRegex(said, r"xpurun: no report: the file system of \S+ does not answer")
        self.go_on()


class Writer(Stalls, xpurun_test.Case):
    """The writer of the run directory is stopped."""

    def writers(self):
        for pid in self.strays():
            try:
                if pathlib.Path(f"/proc/{pid}/comm").read_text() == "xpurun-writer\n":
                    yield pid
            except OSError:
                pass

    def stall(self):
        self.writer = self.wait_for(lambda: next(self.writers(), 0), "writer")
        os.kill(self.writer, signal.SIGSTOP)

    def go_on(self):
        os.kill(self.writer, signal.SIGCONT)

    def something_waits(self):
        """Whether one of the writer's sockets has bytes that the writer has not read."""
        libc = ctypes.CDLL(None, use_errno=True)
        process = os.pidfd_open(self.writer)
        try:
            for number, target in descriptors(self.writer):
                if not target.startswith("socket:"):
                    continue
                copy = libc.syscall(PIDFD_GETFD, process, number, 0)
                if copy < 0 and ctypes.get_errno() == errno.EBADF:
                    continue  # closed by now
                self.assertGreaterEqual(copy, 0, os.strerror(ctypes.get_errno()))
                try:
                    if int.from_bytes(fcntl.ioctl(copy, termios.FIONREAD, bytes(4)), sys.byteorder):
                        return True
                finally:
                    os.close(copy)
        finally:
            os.close(process)
        return False

    def test_the_supervisor_holds_nothing_of_the_run_directory(self):
        p = self.start_xpurun("--", PYTHON, "-c", HANG, env=self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1"))
        self.assertEqual(p.stdout.readline(), "ready\n")
        self.wait_for(self.rank_pids, "rank")
        held = [target for _, target in descriptors(p.pid)]
        self.assertEqual([path for path in held if str(self.out) in path], [])
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=SECONDS)
        self.assertEqual(list(self.writers()), [])


class Fuse(Stalls, xpurun_test.Case):
    def setUp(self):
        super().setUp()
        if not os.path.exists("/dev/fuse"):
            self.skipTest("no /dev/fuse")
        if subprocess.run([PYTHON, "-c", "import fusepy"], capture_output=True).returncode != 0:
            self.skipTest("needs python3-fusepy")
        self.mount = self.dir / "mnt"
        self.mount.mkdir()
        (self.dir / "root").mkdir()
        self.fs = subprocess.Popen(
            [
                PYTHON,
                str(SOURCE / "tests/support/stalling_fs.py"),
                str(self.dir / "root"),
                str(self.mount),
                str(self.dir / "stall"),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self.unmount)
        end = time.monotonic() + 30
        while not os.path.ismount(self.mount):
            if self.fs.poll() is not None or time.monotonic() > end:
                self.skipTest("FUSE cannot be mounted here")
            time.sleep(0.05)
        self.out = self.mount / "run"

    def unmount(self):
        self.go_on()
        for tool in (["fusermount3", "-u", "-z"], ["umount", "-l"]):
            if subprocess.run([*tool, str(self.mount)], capture_output=True).returncode == 0:
                break
        self.fs.terminate()
        self.fs.communicate(timeout=SECONDS)

    def stall(self):
        (self.dir / "stall").touch()

    def go_on(self):
        (self.dir / "stall").unlink(missing_ok=True)

    def something_waits(self):
        return (self.dir / "stall.met").exists()

    def test_sockets_have_another_place(self):
        runtime = self.dir / "runtime"
        runtime.mkdir()
        p = self.start_xpurun(
            "--",
            PYTHON,
            "-c",
            HANG,
            env=self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", XDG_RUNTIME_DIR=str(runtime)),
        )
        self.assertEqual(p.stdout.readline(), "ready\n")
        self.wait_for(self.rank_pids, "rank")
        self.assertTrue(self.manifest()["control"].startswith(str(runtime)))
        result = subprocess.run(
            [PROGRAM, "stacks", "--run", str(self.out)], capture_output=True, text=True, timeout=SECONDS
        )
        self.assertIn("train", result.stdout, result.stderr)
        p.send_signal(signal.SIGTERM)
        said = p.communicate(timeout=SECONDS)[1]
        self.assertNotIn("no sockets", said)
        self.assertEqual(list(runtime.iterdir()), [])


class Full(xpurun_test.Case):
    """No file can grow, as on a full disk."""

    def hang(self, *options):
        command = self.command("--hang-timeout", "2", "--grace", "1s", *options, "--", PYTHON, "-c", HANG)
        return subprocess.Popen(
            ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *command],
            cwd=self.dir,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1"),
        )

    def test_the_verdict_is_told(self):
        p = self.hang("--on-hang", "kill")
        said = p.communicate(timeout=SECONDS)[1]
        self.assertEqual(p.returncode, 124, said)
        self.assertRegex(said, r"xpurun: hang: rank 0 has been in train \(<string>:7")
        self.assertIn("xpurun: no report: ", said)
        self.assertNotIn("xpurun.log", said)
        self.assertNotIn("wait status", said)


if __name__ == "__main__":
    xpurun_test.main()
