"""Shared code of the attacks: full and stalled disks, programs in C, jobs with one rank.

Every test names the number of its case in README.md.
"""

import contextlib
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import xpurun_test  # noqa: E402
from slow_fs import StallingFs  # noqa: E402
from xpurun_test import PROGRAM, PYTHON  # noqa: E402

RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
# A job that hangs until SIGUSR1, or for the given seconds, and exits cleanly.
HANG = """
import signal, sys, threading
class Released(Exception):
    pass
def release(*a):
    raise Released
def stuck(seconds):
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=seconds)
signal.signal(signal.SIGUSR1, release)
try:
    stuck(float(sys.argv[1]))
except Released:
    pass
print("job done", flush=True)
"""
NOBODY = 65534
JOBS = pathlib.Path(__file__).resolve().parent / "jobs"


def job_command(job, *arguments):
    """The command and the environment of a job of jobs/: one rank, or four if the job asks for its rank."""
    script = str(JOBS / f"{job}.py")
    source = pathlib.Path(script).read_text()
    if "import ranks" in source or 'environ["RANK"]' in source or job == "H_four_independent":
        return [PYTHON, str(JOBS / "launch.py"), "4", script, *arguments], {}
    return [PYTHON, script, *arguments], RANK


def needs_torch(job):
    source = (JOBS / f"{job}.py").read_text()
    return "torch" in source or "import ranks" in source


def tasks(pid):
    """[(tid, state letter, tracer)] of a process; empty after its end."""
    out = []
    with contextlib.suppress(OSError):
        for tid in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError, IndexError):
                lines = pathlib.Path(f"/proc/{pid}/task/{tid}/status").read_text().splitlines()
                fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
                out.append((int(tid), fields["State"][0], int(fields["TracerPid"])))
    return out


def stopped(pid):
    return [t for t in tasks(pid) if t[1] in "tT" or t[2] != 0]


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def need_root():
    if os.geteuid() != 0:
        raise unittest.SkipTest("needs root")


def limits(**values):
    """A preexec_fn: limits(NOFILE=16)."""
    def set_them():
        for name, value in values.items():
            resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))
    return set_them


def as_nobody(*more):
    """A preexec_fn that gives up root, then calls the others."""
    def become():
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        for call in more:
            call()
    return become


class Case(xpurun_test.Case):
    def tmpfs(self, options="size=256k"):
        """A small separate disk."""
        need_root()
        path = self.dir / "disk"
        path.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], capture_output=True).returncode != 0:
            self.skipTest("tmpfs cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", path], capture_output=True)
        return path

    def stalling(self, delay=0.0):
        need_root()
        try:
            fs = StallingFs(self.dir, delay)
        except OSError as e:
            self.skipTest(str(e))
        self.addCleanup(fs.close)
        return fs

    def fill(self, path):
        """Fills a disk to the last byte."""
        with open(path / "filler", "ab", buffering=0) as f:
            for size in (65536, 4096, 1):
                with contextlib.suppress(OSError):
                    while f.write(b"x" * size):
                        pass

    def compile(self, source, *flags, name="program", compiler="g++"):
        path = self.dir / name
        code = self.dir / f"{name}.c"
        code.write_text(source)
        language = ["-x", "c"] if compiler == "g++" else []
        built = subprocess.run(
            [compiler, *language, "-o", path, code, "-x", "none", *flags], capture_output=True, text=True
        )
        if built.returncode != 0:
            self.skipTest(f"cannot be built here: {built.stderr.strip()[-300:]}")
        return path

    def open_to_all(self):
        """The test's directory for a job of another user."""
        need_root()
        self.dir.chmod(0o777)

    def rank_env(self, **more):
        return self.env(**RANK, **more)

    def run_hang(self, argv, told="rank 0", limit=60, **kwargs):
        """Runs a supervised HANG, releases it as soon as a line of stderr contains `told`, and returns how it ended."""
        kwargs.setdefault("env", self.rank_env())
        process = self.start(*argv, **kwargs)
        lines, end = [], time.monotonic() + limit
        while time.monotonic() < end and (line := process.stderr.readline()):
            lines.append(line)
            if told in line:
                self.release()
                break
        out, err = process.communicate(timeout=limit)
        return subprocess.CompletedProcess(argv, process.returncode, out, "".join(lines) + err)

    def release(self):
        for pid in self.strays():
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if pathlib.Path(os.fsdecode(words[0])).name.startswith("python"):
                    os.kill(pid, signal.SIGUSR1)

    def hang(self, seconds, *args, runs=None, **kwargs):
        """A supervised rank 0 that hangs until the hang is reported, at most `seconds`, and then exits cleanly."""
        place = ["--runs-dir", runs] if runs else ["--out", self.out]
        return self.run_hang(
            [PROGRAM, *place, "--hang-timeout", "1", *args, "--", PYTHON, "-c", HANG, seconds], **kwargs
        )

    def start(self, *argv, **kwargs):
        """Any process; it is ended with the test."""
        process = subprocess.Popen(
            [str(a) for a in argv],
            cwd=kwargs.pop("cwd", self.dir),
            env=kwargs.pop("env", self.env()),
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **kwargs},
        )
        self.started.append(process)
        return process

    def python(self, code, *args, ready=True, **kwargs):
        """A Python process; with `ready` the code must print a line once it is up."""
        process = self.start(PYTHON, "-c", code, *args, **kwargs)
        if ready:
            self.assertTrue(process.stdout.readline(), "the program did not come up")
        return process

    def stacks(self, *args, timeout=60, **kwargs):
        return subprocess.run([PROGRAM, "stacks", *map(str, args)], capture_output=True, text=True, cwd=self.dir,
                              env=self.env(), timeout=timeout, **kwargs)

    def first_stall(self):
        """The verdict of the first hang; verdict.json has the verdict of the end."""
        stalls = self.manifest()["stalls"]
        self.assertTrue(stalls, "no hang was found")
        return stalls[0]["verdict"]

    def only_run(self, runs):
        """The one run directory below `runs`."""
        found = [p for p in pathlib.Path(runs).iterdir() if p.is_dir() and not p.is_symlink()]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def assert_told(self, text, *words):
        """One line of xpurun has all the words."""
        lines = [line for line in text.splitlines() if "xpurun" in line]
        self.assertTrue(any(all(w in line for w in words) for line in lines), f"no line with {words} in:\n{text}")

    def wait_gone(self, pid, seconds=30):
        self.wait_for(lambda: not alive(pid), f"end of process {pid}", seconds)


def seconds_of(call):
    start = time.monotonic()
    result = call()
    return time.monotonic() - start, result


def main():
    """Runs the tests of one file in a few processes, because they mostly wait. With arguments: as unittest."""
    xpurun_test.in_shards(3)
