"""xpurun stacks --format pyspy against py-spy itself, on one process that does not move: the JSON of `py-spy dump`, of
its --locals and of its --native, with every CPython here.

py-spy is 0.4.3 of PyPI in a virtual environment made here, or the program $XPURUN_TEST_PYSPY; skipped without both.
"""

import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from stackdump_live import Target, on_every_python

PROGRAM = os.environ["XPURUN_PROGRAM"]
PACKAGE = "py-spy==0.4.3"

CODE = """
import ctypes, queue, threading, time

class Unknown:
    pass

class Named(int):
    pass

NumpyLike = type("numpy.int32", (), {"__slots__": ("x",)})

def noargs():
    time.sleep(1000)

class Worker:
    def serve(self, shared, batch=17, *rest, mode="it's", api_token="do-not-show-this", **more):
        numbers = [0, -5, 2 ** 40, 2 ** 59, -2 ** 65, 2 ** 70, True, False, None, Named(3)]
        floats = (1.0, 0.5, -0.0, 1e20, 1e-7, 3.14159, float("inf"), float("nan"), 1.7976931348623157e308)
        text, line, long_text, too_long = "é'ß", "a\\nb", "x" * 300, "y" * 5000
        empty = [[], {}, (), "", set(), b""]
        many, pairs = list(range(1000)), {str(i): i for i in range(100)}
        nested = [[1, [2, [3]]], {"k": [1, 2], 7: (1,)}, ("a", ["b" * 100, "c" * 100, "d"])]
        settings = {"rate": 0.1, "password": "do-not-show-that"}
        itself = [1]
        itself.append(itself)
        deep = []
        for _ in range(100):
            deep = [deep]
        del _
        others = [Unknown(), noargs, range(3), 2j, b"bytes", {1, 2}]
        like = NumpyLike()
        like.x = 5
        deleted = {i: i for i in range(8)}
        del deleted[0], deleted[3]

        def inner():
            return shared
        ctypes.CDLL(None).usleep(1000000000)
        return inner

def callback(x):
    Worker().serve([x], 18, 19, 20, more=1)
    return x

lock = threading.Lock()
lock.acquire()
for name, run, args in (("Wörker", lambda: sorted([1, 2], key=callback), ()), ("sleeps", noargs, ()),
                        ("builtin", time.sleep, (1000,)), ("locks", lock.acquire, ()),
                        ("waits", queue.Queue().get, ())):
    threading.Thread(target=run, args=args, name=name, daemon=True).start()
time.sleep(0.5)
print("ready", flush=True)
threading.Event().wait()
"""


def find_pyspy(folder):
    """The program, and why there is none."""
    if "XPURUN_TEST_PYSPY" in os.environ:
        return os.environ["XPURUN_TEST_PYSPY"], ""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
    done = subprocess.run([f"{folder}/bin/pip", "install", "--quiet", "--retries", "1", "--timeout", "10", PACKAGE],
                          capture_output=True, text=True)
    return (f"{folder}/bin/py-spy", "") if done.returncode == 0 else (None, done.stderr[-300:])


def runs_of(frames):
    """[(module, its frames)]; the module of Python frames is None."""
    return [(module, list(run)) for module, run in itertools.groupby(frames, lambda f: f["module"])]


def by_thread(threads):
    return {t["os_thread_id"]: t["frames"] for t in threads}


class PySpy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="xpurun-py-spy-")
        cls.addClassCleanup(folder.cleanup)
        cls.pyspy, why = find_pyspy(folder.name)
        if not cls.pyspy:
            raise unittest.SkipTest(f"py-spy cannot be had from PyPI: {why}")

    def both(self, target, ours=(), theirs=()):
        told = subprocess.run([self.pyspy, "dump", "-j", *theirs, "-p", str(target.pid)], capture_output=True,
                              timeout=60)
        self.assertEqual(told.returncode, 0, told.stderr)
        mine = subprocess.run([PROGRAM, "stacks", "--pid", str(target.pid), "--deadline", "10s", "--format", "pyspy",
                               *ours], capture_output=True, timeout=60)
        self.assertEqual(mine.returncode, 0, mine.stderr)
        return mine.stdout.decode(), told.stdout.decode()

    @on_every_python
    def test_same_bytes(self, _version, python):
        with Target(CODE, python=python) as target:
            ours, theirs = self.both(target)
            self.assertEqual(json.loads(ours), json.loads(theirs))
            self.assertEqual(ours.rstrip("\n"), theirs.rstrip("\n"))

    @on_every_python
    def test_locals(self, _version, python):
        with Target(CODE, python=python) as target:
            ours, theirs = map(json.loads, self.both(target, ["--locals"], ["--locals"]))
            self.assertNotIn("do-not-show", json.dumps(ours))
            compared = set()
            for mine, other in zip(ours, theirs, strict=True):
                for frame, reference in zip(mine["frames"], other["frames"], strict=True):
                    self.assertEqual({**frame, "locals": 0}, {**reference, "locals": 0})
                    compared |= self.compare_locals(frame, reference)
            self.assertLessEqual({"self", "shared", "floats", "settings", "itself", "like", "inner"}, compared)

    def compare_locals(self, frame, reference):
        """Names of the equal variables. xpurun adds variables that inner functions share, and shows the values of
        those; it masks secrets."""
        self.assertIsInstance(frame["locals"], list)
        mine = {v["name"]: v for v in frame["locals"]}
        names = [v["name"] for v in reference["locals"]]
        self.assertEqual([n for n in mine if n in names], names)
        for theirs in reference["locals"]:
            ours = mine[theirs["name"]]
            self.assertEqual(list(ours), list(theirs))
            expected = dict(theirs)
            if expected["repr"].startswith("<cell at "):
                expected["repr"] = "[1]"
            elif theirs["name"] == "api_token":
                expected["repr"] = "****"
            elif theirs["name"] == "settings":
                expected["repr"] = theirs["repr"].replace('"do-not-show-that"', "****")
            self.assertEqual(ours, expected, frame["name"])
        return set(mine)

    @on_every_python
    def test_native(self, _version, python):
        with Target(CODE, python=python) as target:
            ours, theirs = map(json.loads, self.both(target, ["--view", "merged"], ["--native"]))
            self.assertEqual([t["os_thread_id"] for t in ours], [t["os_thread_id"] for t in theirs])
            theirs = by_thread(theirs)
            for tid, frames in by_thread(ours).items():
                self.compare_native(frames, theirs[tid])

    def compare_native(self, ours, theirs):
        """Run by run of frames of one module. py-spy has addresses where only a separate debug file has names; there
        xpurun also has the inlined functions."""
        what = "\n".join(f["name"] for f in ours) + "\n--\n" + "\n".join(f["name"] for f in theirs)
        ours, theirs = runs_of(ours), runs_of(theirs)
        self.assertEqual([module for module, _ in ours], [module for module, _ in theirs], what)
        for (module, mine), (_, reference) in zip(ours, theirs, strict=True):
            if module is None:
                self.assertEqual(mine, reference, what)
                continue
            names = [f["name"] for f in mine]
            told = [f["name"] for f in reference if not f["name"].startswith("0x")]
            if len(told) == len(reference):
                self.assertEqual(names, told, what)
            else:
                self.assertGreaterEqual(len(names), len(reference), what)
                self.assertEqual([n for n in names if n in told], told, what)
            for frame in mine:
                self.assertEqual(list(frame), list(reference[0]))
                self.assertEqual((frame["is_entry"], frame["is_shim_entry"], frame["locals"]), (True, True, None))

    def test_a_file_is_read_again(self):
        """What xpurun writes, it reads: the same frames."""
        with Target(CODE) as target, tempfile.TemporaryDirectory() as folder:
            ours, _ = self.both(target, ["--view", "merged", "--locals"])
            file = pathlib.Path(folder, "rank-0.json")
            file.write_text(ours)
            again = subprocess.run([PROGRAM, "stacks", file, "--view", "merged", "--format", "pyspy"],
                                   capture_output=True, timeout=60)
            self.assertEqual(again.returncode, 0, again.stderr)
            names = [[f["name"] for f in t["frames"]] for t in json.loads(again.stdout)]
            self.assertEqual(names, [[f["name"] for f in t["frames"]] for t in json.loads(ours)])


if __name__ == "__main__":
    unittest.main()
