"""Jobs that start their own processes: these are the ranks, and the process that waits for them is not a rank."""

import json
import sys
import unittest

import xpurun_test
from lane import long
from xpurun_test import PYTHON

JOB = xpurun_test.JOB.with_name("spawn_job.py")
TIMEOUT = 4


FIT = """
import sys, time
def read_seed():
    time.sleep(1000)
time.sleep(1)
if sys.argv[1] == "1":
    read_seed()
"""

MANAGED = """
import multiprocessing as mp, sys
def work(lock, event):
    with lock:
        event.wait()
if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    manager = mp.Manager()
    lock, event = manager.Lock(), manager.Event()
    processes = [mp.Process(target=work, args=(lock, event)) for _ in range(2)]
    [p.start() for p in processes]; [p.join() for p in processes]
"""


class Spawned(xpurun_test.Case):
    def job(self, way, fault, seconds, *more):
        return self.run_xpurun(
            "--hang-timeout", TIMEOUT, "--grace", "2s", *more, "--", PYTHON, JOB, way, fault, seconds
        )

    def ranks(self):
        return {p["rank"]: p for p in self.manifest()["processes"] if p["role"] == "rank"}

    def check_hang(self, way, ranks, guilty):
        result = self.job(way, "sleep", 1000, "--on-hang", "kill")
        verdict = self.verdict()
        detail = json.dumps(verdict, indent=1) + result.stderr
        self.assertEqual(result.returncode, 124, detail)
        self.assertEqual((verdict["kind"], verdict["ranks"], verdict["state"]), ("hang", [guilty], "stuck"), detail)
        self.assertEqual(verdict["where"]["function"], "read_shard", detail)
        self.assertEqual(
            {rank: p["identity"] for rank, p in self.ranks().items()}, {n: "spawned" for n in range(ranks)}
        )
        self.assertEqual(self.manifest()["world_size"], ranks)
        return verdict

    def test_hangs(self):
        for way in ("spawn", "fork", "forkserver"):
            with self.subTest(way=way):
                self.out = self.dir / way
                verdict = self.check_hang(way, 3, 1)
                self.assertEqual([w["ranks"] for w in verdict["waiting"]], [[0, 2]])

    def test_xargs_starts_ranks(self):
        script = self.dir / "fit.py"
        script.write_text(FIT)
        command = f"seq 0 2 | xargs -P 3 -I@ sh -c '{PYTHON} {script} @; true'"
        result = self.run_xpurun("--hang-timeout", TIMEOUT, "--on-hang", "kill", "--grace", "2s", "--",
                                 "sh", "-c", command)
        verdict = self.verdict()
        detail = json.dumps(verdict, indent=1) + result.stderr
        self.assertEqual((result.returncode, len(self.ranks()), verdict["kind"]), (124, 3, "hang"), detail)
        self.assertEqual((verdict["where"]["function"], verdict["state"]), ("read_seed", "stuck"), detail)

    def test_the_server_of_a_manager_is_no_rank(self):
        for way in ("fork", "spawn"):
            with self.subTest(way=way):
                self.out = self.dir / way
                script = self.dir / "managed.py"
                script.write_text(MANAGED)
                result = self.run_xpurun("--hang-timeout", TIMEOUT, "--on-hang", "kill", "--grace", "2s", "--",
                                         PYTHON, script, way)
                verdict = self.verdict()
                detail = json.dumps(verdict, indent=1) + result.stderr
                self.assertEqual((len(self.ranks()), verdict["kind"]), (2, "hang"), detail)
                self.assertEqual(verdict["where"]["function"], "work", detail)

    def test_hang_of_a_program_started_by_a_program(self):
        self.check_hang("subprocess", 1, 0)

    @long
    @unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
    def test_torch(self):
        self.check_hang("torch", 3, 1)
        # In this case the launcher ends the others.
        self.out = self.dir / "crash"
        result = self.job("torch", "segv", 1000)
        verdict = self.verdict()
        detail = json.dumps(verdict, indent=1) + result.stderr
        self.assertEqual((verdict["kind"], verdict["ranks"], verdict["signal"]), ("crash", [1], 11), detail)
        self.assertEqual(result.returncode, 139, detail)
        self.assertEqual(self.ranks()[1]["identity"], "spawned")

    @unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
    def test_a_program_that_becomes_rank_0_itself(self):
        """Lightning's own launcher: the program changes its own environment, and starts the second rank with LOCAL_RANK
        and WORLD_SIZE only."""
        result = self.run_xpurun("--", PYTHON, JOB.with_name("own_launcher_job.py"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual({rank: p["cmdline"][-1] for rank, p in self.ranks().items()},
                         {0: str(JOB.with_name("own_launcher_job.py")), 1: "second"}, self.manifest()["processes"])
        self.assertEqual(self.manifest()["world_size"], 2)
        report = json.loads(self.run_xpurun("analyze", "--format", "json", self.out, out=False).stdout)
        self.assertEqual([rank["rank"] for rank in report["ranks"]], [0, 1])

    def test_what_ignores_its_end_does_not_stay(self):
        result = self.job("fork", "stubborn", 1000, "--on-hang", "kill")
        self.assertEqual(result.returncode, 124, result.stderr)
        self.assertEqual(list(self.strays()), [])
        self.assertEqual([p["death"]["wait_status"] for p in self.ranks().values()], [9, 9, 9])

    def test_waiting_for_processes_that_get_on_is_no_hang(self):
        for way in ("spawn", "subprocess"):
            with self.subTest(way=way):
                self.out = self.dir / way
                result = self.job(way, "none", 3 * TIMEOUT)
                self.assertEqual((result.returncode, self.verdict()["kind"]), (0, "none"), result.stderr)
                self.assertEqual(self.manifest()["stalls"], [])

    def test_crash(self):
        """A crash before and after the parent was seen waiting. The other ranks stay at the barrier."""
        for fault in ("segv", "late-segv"):
            with self.subTest(fault=fault):
                self.out = self.dir / fault
                result = self.job("fork", fault, 1000, "--on-hang", "kill")
                verdict = self.verdict()
                detail = json.dumps(verdict, indent=1) + result.stderr
                self.assertEqual((verdict["kind"], verdict["ranks"], verdict["state"]), ("hang", [1], "dead"), detail)
                self.assertIn("died of SIGSEGV", verdict["sentence"], detail)
                self.assertEqual([w["ranks"] for w in verdict["waiting"]], [[0, 2]], detail)
                self.assertEqual(result.returncode, 124, detail)


if __name__ == "__main__":
    sys.exit(xpurun_test.main())
