"""The host below a job: who has the CPUs of a rank, and xpurun top --machine."""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

import xpurun_test
from xpurun_test import PROGRAM, PYTHON

# Shares one CPU with the hog for as long as the file "on" is there.
RANK = """
import os, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
open("pid", "w").write(str(os.getpid()))
while os.path.exists("on"):
    sum(range(20000))
"""
HOG = """
import ctypes, os
ctypes.CDLL(None).prctl(15, b"hog of the test", 0, 0, 0)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
while True:
    pass
"""
# Has a page cache and shared memory, and grows until the kernel kills it at 300 MiB; never beyond 600 MiB.
GROWING = """
import mmap, os, resource, time
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
open("data", "wb").write(bytes(60 << 20))
shared = mmap.mmap(-1, 30 << 20)
shared.write(b"x" * (30 << 20))
keep = [b"x" * (40 << 20)]
while not os.path.exists("grow"):
    time.sleep(0.1)
while len(keep) < 50:
    keep.append(b"x" * (10 << 20))
"""


# A worker that keeps all samples.
LOADER = """import torch
from torch.utils.data import DataLoader, Dataset

class Samples(Dataset):
    kept = []

    def __len__(self):
        return 100000

    def __getitem__(self, index):
        self.kept.append(torch.ones(1 << 18))
        return torch.ones(4)

for batch in DataLoader(Samples(), batch_size=4, num_workers=1):
    pass
"""


# Starts the rank, which does not grow, and two processes that do.
CROWDED = """import os, subprocess, sys, time
if "RANK" not in os.environ:
    names = dict(os.environ, RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
    rank = subprocess.Popen([sys.executable, "train.py"], env=names)
    hoards = [subprocess.Popen([sys.executable, "hoard.py"]) for _ in range(2)]
    sys.exit(rank.wait() != 0)
keep = b"x" * (75 << 20)
time.sleep(100)
"""
HOARD = """import os, time
keep, parent = [], os.getppid()
time.sleep(4)
while os.getppid() == parent:
    if len(keep) < 65:
        keep.append(b"x" * (1 << 20))
    time.sleep(0.2)
"""
# Shared memory that grows.
SEGMENT = """import mmap, os, time
f = os.memfd_create("batches")
for n in range(1, 1000):
    os.ftruncate(f, n << 20)
    with mmap.mmap(f, 1 << 20, offset=(n - 1) << 20) as part:
        part.write(b"x" * (1 << 20))
    time.sleep(0.06)
"""
# Workers read objects of their parent, whose pages they get copies of.
COPIES = """import os, time
rows, parent = [{"id": str(n), "tags": [str(n)]} for n in range(180000)], os.getpid()
for worker in range(3):
    if os.fork() == 0:
        for n, row in enumerate(rows):
            kept = row["tags"]
            if n % 1000 == 0:
                time.sleep(0.05)
        while os.getppid() == parent:
            time.sleep(0.1)
        os._exit(0)
time.sleep(100)
"""


def can_read_kernel_log():
    try:
        with open("/dev/kmsg", "rb", buffering=0):
            return True
    except OSError:
        return False


# As in a container: another user, whose /proc shows no process of others, has masks, and no control groups.
MASKED = """
set -e
mount -t proc -o hidepid=2 proc /proc
mount -t tmpfs -o ro tmpfs /proc/pressure
mount -t tmpfs -o ro tmpfs /sys/fs/cgroup
for file in interrupts kmsg; do mount --bind /dev/null /proc/$file; done
exec setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all --inh-caps=-all "$@"
"""


class Machine(xpurun_test.Case):
    def memory_group(self, limit_bytes):
        """A control group with this limit, removed after the test; the test is skipped where none can be made."""
        for root, limit in (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")):
            group = pathlib.Path(root) / f"xpurun-test-{os.getpid()}"
            try:
                group.mkdir()
            except OSError:
                continue
            self.addCleanup(group.rmdir)
            # The kernel makes the files of a control group; a folder that is none stays empty.
            if (group / limit).exists():
                (group / limit).write_text(str(limit_bytes))
                return group
        self.skipTest("cannot make a control group with a memory limit")

    def test_whose_the_memory_of_a_killed_rank_was(self):
        group = self.memory_group(300 << 20)
        enter = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
        env = self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
        words = [*enter, xpurun_test.PROGRAM, "--out", str(self.out), "--", sys.executable, "-c", GROWING]
        job = subprocess.Popen(words, cwd=self.dir, env=env, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        self.started.append(job)

        def shared():
            try:
                tracks = json.loads((self.out / "machine.json").read_text())["use"]["tracks"]
            except (FileNotFoundError, KeyError):
                return 0
            return max((max(t["values"]) for t in tracks if t["use"] == "group_shared"), default=0)

        self.wait_for(lambda: shared() >= 30 << 20, "a reading of the control group")
        (self.dir / "grow").touch()
        job.wait(timeout=60)
        verdict = json.loads((self.out / "verdict.json").read_text())
        said = "\n".join(verdict["evidence"] + verdict.get("details", []))
        found = re.search(r"the control group /\S+ held ([0-9.]+) MiB of processes, ([0-9.]+) MiB of files .page "
                          r"cache. and ([0-9.]+) MiB of shared memory", said)
        self.assertIsNotNone(found, said)
        processes, files, shm = (float(n) for n in found.groups())
        self.assertGreater(processes, 40)
        self.assertLess(processes, 150)
        # A file of a tmpfs is shared memory.
        kind = subprocess.run(["stat", "-f", "-c", "%T", self.dir], capture_output=True, text=True, check=True).stdout
        if kind.strip() != "tmpfs":
            self.assertGreaterEqual(files, 50)
            self.assertAlmostEqual(shm, 30, delta=10)
        self.assertGreaterEqual(files + shm, 85)
        if "killed it at the memory limit" in verdict["sentence"]:
            self.assertGreater(verdict["memory"]["bytes"], 100 << 20)
            line = GROWING[:GROWING.index("keep.append(b")].count("\n") + 1
            self.assertEqual((verdict["memory"]["where"]["line"], verdict["where"]["line"]), (line, line))
            self.assertRegex(verdict["title"], r"^rank 0 ran out of memory: .* allocated at <module> \(<string>:\d+")
        report = json.loads((self.out / "report.json").read_text())
        order = [f for f in report["findings"] if f["id"] == "order"]
        self.assertTrue(order and any("kernel killed" in line for line in order[0]["evidence"]), report["findings"])

    def oom_verdict(self, limit_bytes, program, rank="0"):
        if not can_read_kernel_log():
            self.skipTest("the kernel's log cannot be read here")
        group = self.memory_group(limit_bytes)
        (self.dir / "train.py").write_text(program)
        enter = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
        names = {} if rank is None else {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "1"}
        job = self.start_xpurun("--", *enter, PYTHON, "train.py", env=self.env(**names))
        job.wait(timeout=90)
        self.wait_for(lambda: not (group / "cgroup.procs").read_text(), "the end of all processes")
        verdict = self.verdict()
        self.assertIn("killed it at the memory limit of its control group", verdict["sentence"])
        return verdict

    def test_the_only_process_is_killed_for_want_of_memory(self):
        # Not at once: where the interpreter keeps its frames must be known for half of the memory.
        verdict = self.oom_verdict(200 << 20, "import time\nkeep = []\nwhile True:\n    keep.append(b'x' * (1 << 20))\n"
                                              "    time.sleep(0.02)\n")
        self.assertRegex(verdict["title"], r"^rank 0 ran out of memory: .* allocated at <module> \(train.py:4\)")

    @unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
    def test_a_loader_worker_is_killed_for_want_of_memory(self):
        verdict = self.oom_verdict(700 << 20, LOADER)
        self.assertRegex(verdict["title"], r"^a worker of rank 0 ran out of memory: .* allocated at "
                                           r"Samples.__getitem__ \(train.py:\d+\)")

    def test_processes_that_are_no_ranks_fill_the_memory(self):
        (self.dir / "hoard.py").write_text(HOARD)
        verdict = self.oom_verdict(190 << 20, CROWDED, rank=None)
        self.assertRegex(verdict["sentence"], r"; 2 processes that are no ranks held [\d.]+ MiB of .* hoard.py")

    def test_shared_memory_fills_the_memory(self):
        verdict = self.oom_verdict(200 << 20, SEGMENT)
        self.assertRegex(verdict["sentence"], r"shared memory or files in memory: /memfd:batches, of rank 0")

    def test_copies_of_forked_workers_fill_the_memory(self):
        verdict = self.oom_verdict(200 << 20, COPIES)
        self.assertRegex(verdict["sentence"], r"[\d.]+ MiB were copies of pages that rank 0 shares with \d processes")

    def start_rank(self):
        (self.dir / "on").touch()
        return self.start_xpurun("--hang-timeout", "300", "--", sys.executable, "-c", RANK,
                                 env=self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1"))

    def intruders(self):
        try:
            return json.loads((self.out / "machine.json").read_text()).get("intruders", [])
        except FileNotFoundError:
            return []

    def test_nobody_below_a_masked_proc(self):
        enter = ["unshare", "-m", "--propagation", "private", "bash", "-c", MASKED, "masked"]
        if os.geteuid() != 0 or subprocess.run([*enter, "true"], capture_output=True).returncode != 0:
            self.skipTest("cannot mask /proc here")
        os.chmod(self.dir, 0o777)
        job = [PYTHON, "-c", "import os, time; time.sleep(4); os.read(os.pipe()[0], 1)"]
        command = self.command("--hang-timeout", "6", "--hang-idle", "--on-hang", "kill", "--", *job)
        done = subprocess.run([*enter, *command],
                              capture_output=True, text=True, timeout=120, cwd=self.dir,
                              env=self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", HOME=str(self.dir)))
        verdict = json.loads((self.out / "verdict.json").read_text())
        self.assertEqual(verdict["ranks"], [0], done.stderr)
        self.assertRegex(verdict["sentence"], r"^hang: rank 0 has been in <module>")
        unseen = [line for line in verdict["evidence"] if line.startswith("not seen of the host: ")]
        self.assertEqual(len(unseen), 1, verdict["evidence"])
        self.assertIn("/proc/interrupts (empty or masked)", unseen[0])
        self.assertIn("/proc/pressure/cpu (No such file or directory)", unseen[0])
        missing = "the kernel's messages are missing: "
        self.assertTrue([line for line in verdict["evidence"] if line.startswith(missing)])
        doctor = subprocess.run([*enter, PROGRAM, "doctor"], capture_output=True, text=True, timeout=120,
                                cwd=self.dir, env=self.env(HOME=str(self.dir)))
        self.assertIn("hidepid=invisible", doctor.stdout)
        self.assertIn("mount -o remount,hidepid=0 /proc", doctor.stdout)
        self.assertIn("sysctl kernel.dmesg_restrict=0", doctor.stdout)

    def test_an_intruder_is_told_from_the_job(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("needs two CPUs")
        hog = subprocess.Popen([sys.executable, "-c", HOG])
        self.started.append(hog)
        job = self.start_rank()
        mine = self.wait_for(lambda: [i for i in self.intruders() if i["pid"] == hog.pid], "intruder")[0]
        self.assertEqual((mine["rank"], mine["relation"], mine["command"]), (0, "stranger", "hog of the test"))
        self.assertGreater(mine["ready_s"], 0)
        self.assertLessEqual(mine["cpu_s"], mine["watched_s"] * 1.05)
        self.assertNotIn(int((self.dir / "pid").read_text()), [i["pid"] for i in self.intruders()])
        (self.dir / "on").unlink()
        job.communicate(timeout=60)
        self.assertEqual(job.returncode, 0)
        done = self.run_xpurun("query", "--format", "json", f"SELECT * FROM intruders WHERE pid = {hog.pid}", self.out,
                               out=False)
        row = json.loads(done.stdout)
        self.assertEqual((row["rank"], row["relation"], row["processes"]), (0, "stranger", 1))
        self.assertAlmostEqual(row["share"], row["cpu_s"] / row["watched_s"], places=3)

    def test_top_machine(self):
        job = self.start_rank()
        self.wait_for(lambda: self.rank_pids(), "rank")
        done = self.run_xpurun("top", "--machine", "--once", self.out, out=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], r"^host .+: CPUs \d+ % busy, memory \d+ % used$")
        self.assertRegex(lines[-1], r"^ +0 +\d+ % +\d+ % +\S+ \S+/s +\S+ \S+/s \d+")
        (self.dir / "on").unlink()
        job.communicate(timeout=60)
        after = self.run_xpurun("top", "--machine", "--once", self.out, out=False)
        self.assertIn("the run has ended", after.stdout)


if __name__ == "__main__":
    xpurun_test.main()
