"""The host memory of the ranks by the lines that have allocated, sampled: while the job runs and after SIGKILL."""

import ctypes.util
import json
import os
import pathlib
import signal
import subprocess
import unittest

import xpurun_test
from xpurun_test import PYTHON

VICTIM = pathlib.Path(os.environ["XPURUN_TEST_BUILD"]) / "tests/preload/heap_victim"
MIB = 1 << 20
BLOCKS = 200
# A rank leaks once the test has seen that stacks have lines of Python.
LEAK = """import ctypes, os, sys, threading, time, numpy

malloc = ctypes.CDLL(None).malloc  # without the GIL, as PyTorch allocates
malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]

def wait_for(path):
    while not os.path.exists(path):
        block = numpy.ones(1 << 20)
        time.sleep(0.05)

def compute():
    return numpy.ones(1 << 17).sum()

def append_loss(kept):
    kept.append(numpy.ones(1 << 17))

def append_text(kept):
    while not os.path.exists("end"):
        kept.append(b"x" * 600000)
        time.sleep(0.05)

def append_unlocked(kept):
    kept.append(malloc(1 << 20))

def append_in_thread(kept):
    thread = threading.Thread(target=append_unlocked, args=(kept,))
    thread.start()
    thread.join()

def append_objects(kept):
    kept.append([float(i) for i in range(20000)])

def train(rank):
    kept = []
    wait_for("go")
    for step in range(200):
        compute()
        if rank == sys.argv[2]:
            globals()[sys.argv[1]](kept)
        time.sleep(float(sys.argv[3]))
    open("leaked" + rank, "w").close()
    wait_for("end")

train(os.environ["RANK"])
"""
# One MiB a sample, which the workers keep.
LOADER = """import os, time, torch
from torch.utils.data import DataLoader, Dataset

class Samples(Dataset):
    def __init__(self):
        self.kept = {}

    def __len__(self):
        return 100000

    def __getitem__(self, index):
        self.kept[index] = torch.ones(1 << 18)
        return self.kept[index]

batches = iter(DataLoader(Samples(), batch_size=1, num_workers=2))
for _ in range(100):
    next(batches)
open("loaded", "w").close()
while not os.path.exists("end"):
    time.sleep(0.05)
os._exit(0)
"""
RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
RANKS = r"""
for r in 0 1; do
  RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 "$@" &
done
wait
"""


def have_numpy():
    return subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True).returncode == 0


def line_of(text):
    return LEAK[:LEAK.index(text)].count("\n") + 1


class Heap(xpurun_test.Case):
    def memory(self, *options, out=None):
        run = self.run_xpurun("memory", "--json", *options, out or self.out, out=False)
        return json.loads(run.stdout) if run.returncode == 0 else None

    def held(self, *options):
        """{place: holder} of the host memory."""
        report = self.memory(*options)
        return {one["place"]: one for one in report["holders"] if one["device"] == "host"} if report else {}

    def go(self, place):
        self.wait_for(lambda: place in self.held("--now"), f"memory that {place} holds")
        (self.dir / "go").touch()

    def start_leak(self, function, *command, leaks="0", pause="0.005", options=(), **env):
        (self.dir / "leak.py").write_text(LEAK)
        return self.start_xpurun(*options, "--", *command, PYTHON, "leak.py", function, leaks, pause,
                                 env=self.env(**env))

    def await_leak(self, *ranks):
        self.go(f"leak.py:{line_of('block =')} (wait_for)")
        for rank in ranks or ["0"]:
            self.wait_for((self.dir / f"leaked{rank}").exists, "end of the leak")

    def expect_bytes(self, held, place, wanted, within=0.05):
        self.assertIn(place, held)
        self.assertAlmostEqual(held[place]["most_bytes"], wanted, delta=within * wanted, msg=str(held[place]))

    @unittest.skipUnless(have_numpy(), "needs numpy")
    def test_arrays_while_the_job_runs_and_after_sigkill(self):
        job = self.start_leak("append_loss", **RANK)
        self.await_leak()
        place = f"leak.py:{line_of('kept.append(numpy')} (append_loss)"
        held = self.held("--now")
        self.expect_bytes(held, place, BLOCKS * MIB)
        self.assertNotIn(f"leak.py:{line_of('return numpy')} (compute)", held)
        os.kill(self.rank_pids()[0], signal.SIGKILL)
        job.wait(60)
        self.expect_bytes(self.held(), place, BLOCKS * MIB)
        text = self.run_xpurun("memory", self.out, out=False, env=self.env(COLUMNS="200")).stdout
        self.assertRegex(text, r"200\.?\d* MiB +0 .*allocated with malloc.*leak\.py:\d+ \(append_loss\)")
        evidence = "\n".join(self.verdict()["evidence"])
        self.assertRegex(evidence, r"rank 0 holds 2\d\d\.?\d* MiB that were allocated at leak\.py:\d+ \(append_loss\)")
        rows = self.run_xpurun("query", "--format", "csv", "SELECT place FROM allocations WHERE reason = 'heap' "
                               "ORDER BY bytes DESC LIMIT 1", self.out, out=False).stdout
        self.assertEqual(rows.splitlines()[1], place.partition(" ")[0])
        self.run_xpurun("memory", "--flame", self.dir / "memory.svg", self.out, out=False)
        self.assertIn("append_loss", (self.dir / "memory.svg").read_text())
        self.assertIn("append_loss", (self.out / "report.html").read_text())

    def expect_unlocked(self, function):
        self.start_leak(function, pause="0.001", **RANK)
        self.await_leak()
        place = f"leak.py:{line_of('kept.append(malloc')} (append_unlocked)"
        self.expect_bytes(self.held("--now"), place, BLOCKS * MIB)

    @unittest.skipUnless(have_numpy(), "needs numpy")
    def test_allocations_without_the_gil(self):
        self.expect_unlocked("append_unlocked")

    @unittest.skipUnless(have_numpy(), "needs numpy")
    def test_allocations_of_another_thread_without_the_gil(self):
        self.expect_unlocked("append_in_thread")

    @unittest.skipUnless(have_numpy(), "needs numpy")
    def test_the_end_of_the_interpreter_hides_nothing(self):
        """It gives the memory back before the process is gone."""
        job = self.start_leak("append_loss", **RANK)
        self.await_leak()
        place = f"leak.py:{line_of('kept.append(numpy')} (append_loss)"
        self.expect_bytes(self.held("--now"), place, BLOCKS * MIB)
        (self.dir / "end").touch()
        self.assertEqual(job.wait(60), 0)
        self.expect_bytes(self.held(), place, BLOCKS * MIB)

    def grown(self, rank, function):
        self.held("--now")
        look = json.loads((self.out / f"ranks/{rank}/memory-heap.json").read_text())
        lines = {index for index, one in enumerate(look["places"]) if one["function"] == function}
        return sum(one.get("grown", 0) for one in look["holders"] if lines & set(one.get("site", [])))

    @unittest.skipUnless(have_numpy(), "needs numpy")
    def test_growth_and_the_rank_that_differs(self):
        job = self.start_leak("append_text", "bash", "-c", RANKS, "ranks", leaks="1")
        self.go(f"leak.py:{line_of('block =')} (wait_for)")
        # A verdict says what holds at least 64 MiB.
        self.wait_for(lambda: self.grown(1, "append_text") > 70 * MIB, "growth")
        place = f"leak.py:{line_of('kept.append(b')} (append_text)"
        held = self.held()
        self.assertEqual((held[place]["ranks"], held[place]["most_rank"]), ([1], 1))
        os.kill(self.rank_pids()[1], signal.SIGKILL)
        (self.dir / "end").touch()
        job.wait(60)
        evidence = "\n".join(self.verdict()["evidence"])
        self.assertRegex(evidence, r"rank 1 holds .* MiB that were allocated at leak\.py:\d+ \(append_text\); the most "
                                   r"that one of rank 0 holds of this is 0")
        self.assertRegex(evidence, r"rank 1: \d.* MiB a minute in leak\.py:\d+ \(append_text\)")

    @unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
    def test_workers_of_a_data_loader(self):
        (self.dir / "loader.py").write_text(LOADER)
        job = self.start_xpurun("--", PYTHON, "loader.py", env=self.env(**RANK))
        line = LOADER[:LOADER.index("self.kept[index] =")].count("\n") + 1
        place = f"loader.py:{line} (Samples.__getitem__)"
        self.wait_for((self.dir / "loaded").exists, "batches")
        self.wait_for(lambda: [p["role"] for p in self.manifest()["processes"]].count("worker") == 2, "workers")
        (self.dir / "end").touch()
        self.assertEqual(job.wait(60), 0)
        held = self.held()[place]
        self.assertEqual(held["category"], "workers")
        self.assertGreaterEqual(held["most_bytes"], 100 * MIB)
        self.assertLess(held["most_bytes"], 110 * MIB)  # batches that wait for the rank

    @unittest.skipUnless(have_numpy(), "needs numpy")
    def test_objects_of_python(self):
        job = self.start_leak("append_objects", **RANK)
        self.await_leak()
        lists = {place: one["most_bytes"] for place, one in self.held("--now").items()
                 if place.startswith(f"leak.py:{line_of('kept.append([')} (")}
        # A number takes 32 bytes, and its place in a list 8, of which an eighth is spare.
        self.assertAlmostEqual(sum(lists.values()), BLOCKS * 20000 * 41, delta=0.1 * BLOCKS * 20000 * 41)
        (self.dir / "end").touch()
        self.assertEqual(job.wait(60), 0)
        self.assertEqual(self.verdict()["findings"] if "findings" in self.verdict() else [], [])

    @unittest.skipUnless(have_numpy(), "needs numpy")
    def test_switched_off(self):
        (self.dir / "go").touch()
        (self.dir / "end").touch()
        job = self.start_leak("append_loss", pause="0", options=("--memory", "off"), **RANK)
        self.assertEqual(job.wait(60), 0)
        self.assertFalse((self.out / "ranks/0/memory-heap.json").exists())

    def leak_of_victim(self, what, **env):
        go = self.dir / "go"
        job = self.start_xpurun("--", VICTIM, what, go, env=self.env(**RANK, **env))
        self.assertEqual(job.stdout.readline(), "leaked\n")
        held = self.held("--now")
        go.touch()
        self.assertEqual(job.communicate(timeout=60)[0], "done\n")
        self.assertEqual(job.returncode, 0)
        return held

    def expect_blocks(self, held):
        places = {place: one for place, one in held.items() if place.endswith("keep_blocks)")}
        self.assertEqual(sum(one["most_bytes"] for one in places.values()), 100 * MIB, held)
        self.assertTrue(all(place.startswith("heap_victim.cpp:") for place in places), places)

    def test_a_program_in_c(self):
        self.wait_for(lambda: self.leak_of_victim("leak") or True, "leak")
        self.expect_blocks(self.held())

    def test_children_of_threads_that_fork(self):
        self.leak_of_victim("forks")
        self.expect_blocks(self.held())

    def test_threads_at_their_exit(self):
        self.leak_of_victim("threads")
        # All is freed, but for what threads keep in the library of C++.
        look = json.loads((self.out / "ranks/0/memory-heap.json").read_text())
        self.assertLess(sum(one["bytes"] for one in look["holders"]), 8 * MIB, look)

    @unittest.skipUnless(ctypes.util.find_library("jemalloc"), "needs libjemalloc2")
    def test_another_allocator(self):
        self.leak_of_victim("leak", LD_PRELOAD=ctypes.util.find_library("jemalloc"))
        self.expect_blocks(self.held())


if __name__ == "__main__":
    xpurun_test.main()
