"""Cases 76 to 82: the host below the job: file systems that do not answer, full disks, CPUs that are too few."""

import json
import os
import subprocess
import time
import unittest

import attack
from attack import PROGRAM, PYTHON

# A rank that does one operation on a file system that has stalled meanwhile; the operation may be a child's.
BLOCKED = """
import multiprocessing, os, sys, time
how, path, go = sys.argv[1:4]
fd = -1 if how == "open" else os.open(path, os.O_RDWR)
def block():
    if how == "read":
        os.read(fd, 4096)
    elif how == "write":
        os.write(fd, b"x" * 4096)
    elif how == "fsync":
        os.fsync(fd)
    else:
        os.open(path, os.O_RDONLY)
open(go + ".up", "w").close()
while not os.path.exists(go):
    time.sleep(0.01)
if sys.argv[4:] == ["worker"]:
    worker = multiprocessing.get_context("fork").Process(target=block)
    worker.start()
    worker.join()
else:
    block()
"""
# A rank whose threads all want to run.
BUSY = """
import hashlib, sys, threading, time
until = time.monotonic() + float(sys.argv[1])
def work():
    while time.monotonic() < until:
        hashlib.pbkdf2_hmac("sha256", b"x", b"y", 20000)
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
"""
LAUNCH = """
import os, subprocess, sys
ranks = [subprocess.Popen(sys.argv[1:], env={**os.environ, "RANK": str(n), "LOCAL_RANK": str(n), "WORLD_SIZE": "2"})
         for n in range(2)]
sys.exit(max(rank.wait() for rank in ranks))
"""


class BlockedFiles(attack.Case):
    def blocked(self, how, *more):
        """The verdict on a rank that is blocked in this call, and the path of its file."""
        fs = self.stalling()
        path = fs.path / "shard"
        path.write_bytes(b"x" * 8192)
        go = self.dir / "go"
        job = [PYTHON, "-c", BLOCKED, how, path, go, *more]
        process = self.start(PROGRAM, "--out", self.out, "--hang-timeout", "2", "--", *job, env=self.rank_env())
        self.wait_for(lambda: os.path.exists(f"{go}.up"), "the rank")
        fs.stall()
        go.touch()
        end = time.monotonic() + 60
        while time.monotonic() < end and (line := process.stderr.readline()):
            if "rank 0" in line:
                break
        fs.go_on()
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        return self.first_stall()["sentence"], path

    def assert_named(self, how, sentence, path, who=""):
        self.assertIn(f"{how}() of {path}{who} waits for the file system {path.parent} (fuse", sentence)

    def test_case_76_blocked_in_read(self):
        self.assert_named("read", *self.blocked("read"))

    def test_case_77_blocked_in_write(self):
        self.assert_named("write", *self.blocked("write"))

    def test_case_78_blocked_in_fsync(self):
        self.assert_named("fsync", *self.blocked("fsync"))

    def test_case_79_blocked_in_open(self):
        self.assert_named("openat", *self.blocked("open"))

    def test_case_80_a_worker_is_blocked_in_read(self):
        sentence, path = self.blocked("read", "worker")
        self.assertRegex(sentence, rf"read\(\) of {path} in pid \d+ waits for the file system {path.parent} \(fuse")


class Findings(attack.Case):
    def findings(self, *argv, cwd=None, **env):
        """{id: title} of a job of two ranks."""
        process = self.start(PROGRAM, "--out", self.out, "--", PYTHON, "-c", LAUNCH, *argv, cwd=cwd or self.dir,
                             env=self.env(**env))
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        built = subprocess.run(
            [PROGRAM, "report", self.out], capture_output=True, text=True, env=self.env(), timeout=60
        )
        self.assertEqual(built.returncode, 0, built.stderr)
        report = json.loads((self.out / "report.json").read_text())
        return {f["id"]: f["title"] for f in report["findings"] if f["id"] != "verdict"}

    def test_case_81_a_full_disk_too_few_cpus_and_one_core_for_two_ranks(self):
        disk = self.tmpfs("size=1m,nr_inodes=20")
        (disk / "ballast").write_bytes(b"x" * (1000 << 10))
        for i in range(17):
            (disk / f"file{i}").touch()
        found = self.findings("taskset", "-c", str(min(os.sched_getaffinity(0))), PYTHON, "-c", BUSY, "14", cwd=disk,
                              OMP_NUM_THREADS="8")
        self.assertIn(f"{disk} is 9", found["machine.space"])
        self.assertIn("inodes", found["machine.inodes"])
        self.assertIn("(16)", found["cpu.omp_threads"])
        self.assertIn("ranks 0-1 are pinned to one CPU", found["cpu.shared_core"])
        self.assertIn("ranks 0-1", found["cpu.crowded"])

    def test_case_82_a_healthy_job_has_no_finding(self):
        found = self.findings(PYTHON, "-c", "import time; time.sleep(3)", OMP_NUM_THREADS="1")
        told = {i: t for i, t in found.items() if i.startswith(("cpu.", "machine."))}
        # The file systems of this host, which may be full, are not the job's.
        told = {i: t for i, t in told.items() if i not in ("machine.space", "machine.inodes")}
        self.assertEqual(told, {})
        history = json.loads((self.out / "machine.json").read_text())
        self.assertGreaterEqual(history["readings"], 1)
        self.assertEqual({p["rank"] for p in history["places"]}, {0, 1})


if __name__ == "__main__":
    unittest.main()
