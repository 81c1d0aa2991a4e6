"""Shared code of all end-to-end tests: the built program, a separate directory, and waits with a deadline.

XPURUN_PROGRAM names the program under test (Meson sets it). A test's directory is removed when it passes and
named when it fails.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.environ.get("XPURUN_PROGRAM", "xpurun")
SOURCE = pathlib.Path(os.environ.get("XPURUN_TEST_SOURCE", pathlib.Path(__file__).parents[2]))
JOB = SOURCE / "tests" / "e2e" / "jobs" / "ddp_job.py"
# Debian's interpreter is the one that has torch.
PYTHON = "/usr/bin/python3"
# A test run under nohup, or in the background of a script, has these ignored, and every job would inherit that.
for _number in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(_number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


def have_torch():
    return subprocess.run([PYTHON, "-c", "import torch.distributed"], capture_output=True).returncode == 0


def torchrun(log_dir, *job_args, ranks=4, job=JOB, restarts=0):
    """The command line of a real run; torch 1.13 under Python 3.11 starts only with redirected, teed output."""
    # --standalone uses a fixed port there, and two concurrent tests would conflict.
    return [PYTHON, "-m", "torch.distributed.run", "--rdzv_backend", "c10d", "--rdzv_endpoint", "127.0.0.1:0",
            "--nproc_per_node", str(ranks), "--max_restarts", str(restarts), "--monitor_interval", "1",
            "-r", "1", "-t", "1", "--log_dir", str(log_dir), str(job),
            *map(str, job_args)]


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="xpurun-e2e-"))
        self.out = self.dir / "run"
        self.started = []
        self.failed_before = len(self._failures())
        self.addCleanup(self._clean_up)

    def _failures(self):
        result = getattr(self._outcome, "result", None)
        return list(result.failures) + list(result.errors) if result is not None else []

    def _clean_up(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        # Processes left by a test have its directory in their command line or environment.
        for pid in self.strays():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if len(self._failures()) > self.failed_before:
            print(f"{self.id()}: files kept in {self.dir}", file=sys.stderr)
        else:
            shutil.rmtree(self.dir, ignore_errors=True)

    def strays(self):
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    environ = (entry / "environ").read_bytes()
                except OSError:
                    continue
                if b"XPURUN_E2E=" + str(self.dir).encode() + b"\0" in environ + b"\0":
                    yield int(entry.name)

    def env(self, **more):
        return {**os.environ, "XPURUN_E2E": str(self.dir), **more}

    def command(self, *args, out=True):
        return [PROGRAM, *(["--out", str(self.out)] if out else []), *map(str, args)]

    def run_xpurun(self, *args, out=True, timeout=90, env=None, **kwargs):
        return subprocess.run(self.command(*args, out=out), capture_output=True, text=True, timeout=timeout,
                              cwd=self.dir, env=env or self.env(), **kwargs)

    def start_xpurun(self, *args, out=True, env=None, **kwargs):
        process = subprocess.Popen(self.command(*args, out=out), text=True, cwd=self.dir, env=env or self.env(),
                                   **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kwargs})
        self.started.append(process)
        return process

    def manifest(self):
        return json.loads((self.out / "run.json").read_text())

    def verdict(self):
        return json.loads((self.out / "verdict.json").read_text())

    def wait_for(self, condition, what, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            time.sleep(0.05)
        self.fail(f"no {what} within {seconds} s")

    def rank_pids(self):
        """{rank: pid} of living ranks, from run.json."""
        try:
            processes = self.manifest()["processes"]
        except (OSError, ValueError):
            return {}
        return {p["rank"]: p["pid"] for p in processes if p["role"] == "rank" and "death" not in p}


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def in_shards(count):
    """Runs the tests of the program in this number of processes: they mostly wait. With arguments: as unittest."""
    shard = os.environ.get("XPURUN_TEST_SHARD")
    if len(sys.argv) > 1:
        main()
    if shard is not None:
        tests = list(flat(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])))
        result = unittest.TextTestRunner().run(unittest.TestSuite(tests[int(shard)::count]))
        sys.exit(not result.wasSuccessful())
    parts = [subprocess.Popen([sys.executable, sys.argv[0]], env={**os.environ, "XPURUN_TEST_SHARD": str(i)})
             for i in range(count)]
    sys.exit(max(part.wait() for part in parts))


def main():
    unittest.main(verbosity=1)
