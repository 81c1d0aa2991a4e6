"""Shared code of the tests of xpurun-stackdump: targets, dumps and the interpreters of this machine."""

import functools
import glob
import os
import select
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import stack_files

STACKDUMP = os.environ["XPURUN_STACKDUMP"]


def find_pythons():
    """{"3.11": path or None, ...}: those of pyenv, "system", and those in XPURUN_TEST_PYTHONS (separated
    by colons), which may be later versions and are named by their own version."""
    out = {}
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    for minor in range(8, 15):
        found = sorted(glob.glob(f"{root}/versions/3.{minor}.*/bin/python3.{minor}"))
        out[f"3.{minor}"] = found[-1] if found else None
    out["system"] = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else None
    ask = "import sys; print('%d.%d' % sys.version_info[:2] + getattr(sys, 'abiflags', ''))"
    for path in filter(None, os.environ.get("XPURUN_TEST_PYTHONS", "").split(":")):
        told = subprocess.run([path, "-c", ask], capture_output=True, text=True)
        if told.returncode != 0:
            raise RuntimeError(f"XPURUN_TEST_PYTHONS: {path} does not run: {told.stderr}")
        version = told.stdout.strip()
        out[version if out.get(version) is None else f"{version} ({path})"] = path
    return out


PYTHONS = find_pythons()
ANY_PYTHON = PYTHONS["system"] or sys.executable


def scene():
    """The source of a process with every kind of Python frame."""
    with open(os.path.join(os.path.dirname(__file__), "python_scene.py"), encoding="utf-8") as f:
        return f.read()


def need(program):
    if not shutil.which(program):
        raise unittest.SkipTest(f"{program} is not installed")


def settle(pid):
    """Returns when all threads of the process sleep, seen twice, or when it has computed for 0.15 s: it has then gone
    on from its line of output to where it stays, on a busy machine too."""
    def threads():
        stats = []
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/stat") as f:
                stats.append(f.read().rsplit(")", 1)[1].split())
        return stats

    def cpu_s(stats):
        return sum(int(one[11]) + int(one[12]) for one in stats) / os.sysconf("SC_CLK_TCK")

    end, asleep = time.monotonic() + 30, 0
    try:
        begin = cpu_s(threads())
        while asleep < 2 and time.monotonic() < end:
            time.sleep(0.05)
            now = threads()
            asleep = 0 if any(one[0] == "R" for one in now) else asleep + 1
            if cpu_s(now) - begin > 0.15:
                return
    except (FileNotFoundError, ProcessLookupError):
        pass  # ended, or a thread of it


class Target:
    """A Python program that prints a line when it has reached its position."""

    def __init__(self, code, python=ANY_PYTHON, wait=True, env=None, name="target.py"):
        self.dir = tempfile.mkdtemp(prefix="xpurun-live-")
        self.script = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(self.script), exist_ok=True)
        with open(self.script, "w", encoding="utf-8") as f:
            f.write(textwrap.dedent(code))
        self.process = subprocess.Popen([python, self.script], stdout=subprocess.PIPE, stdin=subprocess.PIPE,
                                        text=True, encoding="utf-8", env=env)
        self.pid = self.process.pid
        self.first_line = ""
        if wait and select.select([self.process.stdout], [], [], 20)[0]:
            self.first_line = self.process.stdout.readline().strip()
        settle(self.pid)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        try:
            self.process.kill()
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        shutil.rmtree(self.dir, ignore_errors=True)

    def state(self):
        with open(f"/proc/{self.pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0]


class Program:
    """A started program that prints a line when it is ready."""

    def __init__(self, *command, **more):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, **more)
        self.pid = self.process.pid
        self.first_line = ""
        if select.select([self.process.stdout], [], [], 30)[0]:
            self.first_line = self.process.stdout.readline().strip()
        settle(self.pid)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Dump:
    def __init__(self, pid, *extra, prefix=(), env=None, deadline_ms=2000):
        with tempfile.TemporaryDirectory(prefix="xpurun-dump-") as d:
            out = os.path.join(d, "x.stacks.json")
            done = subprocess.run(
                [*prefix, STACKDUMP, "--pid", str(pid), "--out", out, "--deadline-ms", str(deadline_ms), *extra],
                capture_output=True,
                text=True,
                timeout=30,
                env=env,
            )
            self.rc, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr
            self.json = None
            if os.path.exists(out):
                self.json = stack_files.read(out)

    @property
    def main(self):
        return next(t for t in self.json["threads"] if t["main"])

    def pause_ms(self):
        return self.json["pause_ns"] / 1e6


def until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"no {what} within {seconds} s")
        time.sleep(0.01)


def python_frames(thread):
    return [f for f in thread["frames"] if f["kind"] == "python"]


def markers(thread):
    return [f["func"] for f in thread["frames"] if f["kind"] == "marker"]


def names(thread):
    return [f["func"] for f in thread["frames"]]


def on_every_python(test):
    """Runs test(self, version, path) for each interpreter as a subtest."""

    @functools.wraps(test)
    def run(self):
        for version, path in PYTHONS.items():
            with self.subTest(python=version):
                if path is None:
                    self.skipTest(f"Python {version} is not installed")
                test(self, version, path)

    return run
