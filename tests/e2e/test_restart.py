"""--on-hang restart: torchrun restarts the ranks that xpurun has ended."""

import json
import unittest

import xpurun_test
from lane import long

TIMEOUT = 3
LAUNCHER = """
import os, subprocess, sys
for attempt in range(int(sys.argv[1])):
    ranks = [subprocess.Popen([sys.executable, sys.argv[2], str(attempt)],
                              env=dict(os.environ, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE="2"))
             for r in range(2)]
    if not sum([r.wait() for r in ranks]):
        sys.exit()
sys.exit(1)
"""
RANK = """
import os, sys, time
def train(attempt):
    if os.environ["RANK"] == "1" and attempt <= 3:
        raise ValueError(f"breaks in attempt {attempt}")
time.sleep(0.5)
train(int(sys.argv[1]) + 1)
time.sleep(0.5)
"""


class Attempts(xpurun_test.Case):
    """A launcher restarts its ranks by itself."""

    def job(self, attempts, rank=RANK):
        for name, text in (("launcher.py", LAUNCHER), ("train.py", rank)):
            (self.dir / name).write_text(text)
        return self.run_xpurun("--", xpurun_test.PYTHON, self.dir / "launcher.py", attempts, self.dir / "train.py")

    def test_each_attempt_is_told(self):
        result = self.job(3)
        verdict = self.verdict()
        detail = json.dumps(verdict, indent=1) + result.stderr
        self.assertEqual(result.returncode, 1, detail)
        for n in (2, 3):
            line = (f"xpurun: the launcher has started the ranks again, attempt {n}: rank 1 raised ValueError: breaks "
                    f"in attempt {n - 1} at train.py:5 (in train)")
            self.assertEqual(result.stderr.count(line), 1, detail)
        self.assertRegex(verdict["sentence"],
                         "rank 1 raised ValueError: breaks in attempt 3 .*; this was attempt 3 of the ranks$", detail)
        for n in (1, 2):
            self.assertEqual("".join(verdict["evidence"]).count(f"breaks in attempt {n}"), 1, detail)

    def test_a_job_that_ends_well_at_last(self):
        result = self.job(3, RANK.replace("attempt <= 3", "attempt == 1"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("attempt 2: rank 1 raised", result.stderr)
        self.assertRegex(self.verdict()["sentence"], "finished normally in .*; this was attempt 2 of the ranks")


@unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
class Restart(xpurun_test.Case):
    def job(self, *options, restarts, faulty_starts):
        self.told = self.dir / "told"
        return self.run_xpurun(
            "--hang-timeout", TIMEOUT, "--grace", "5s", "--on-hang", "restart", "--on-event",
            f"cat >> {self.told}; echo , >> {self.told}", *options, "--",
            *xpurun_test.torchrun(self.dir / "log", "--guilty", 1, "--fault", "sleep", "--steps", 8, "--faulty-starts",
                                  faulty_starts, ranks=2, restarts=restarts), timeout=300
        )

    def events(self):
        return [e["event"] for e in json.loads(f"[{self.told.read_text().rstrip().rstrip(',')}]")]

    def hangs(self):
        """Confirmed hangs only: on a loaded host, healthy ranks may be suspected too."""
        return [i for i in self.manifest()["stalls"] if i["verdict"]["level"] == "confirmed"]

    def check_hangs(self, result, *actions):
        self.assertEqual([(i["action"], i["verdict"]["ranks"]) for i in self.hangs()], [(a, [1]) for a in actions],
                         result.stderr)

    def test_a_job_that_hangs_once_ends_well_and_the_hang_is_told(self):
        result = self.job(restarts=2, faulty_starts=1)
        self.assertEqual(result.returncode, 0, result.stderr)
        run = self.manifest()
        self.assertEqual((run["outcome"], run["exit_status"]), ("exit", 0), result.stderr)
        self.check_hangs(result, "restart")
        (stall,) = self.hangs()
        self.assertGreaterEqual(stall["restarted_s"], stall["cleared_s"])
        self.assertEqual({d["why"] for d in run["dumps"]}, {"hang"})
        # xpurun ended the first start of both ranks; the second exited cleanly.
        ranks = [p for p in run["processes"] if p["role"] == "rank"]
        self.assertEqual(sorted((p["rank"], p["death"]["follower"]) for p in ranks),
                         [(0, False), (0, True), (1, False), (1, True)])
        self.assertEqual(self.verdict()["kind"], "none")
        self.assertIn("then xpurun had the ranks restarted", "".join(self.verdict()["evidence"]))
        self.assertIn("ended by a restart of the ranks", (self.out / "report.html").read_text())
        self.assertRegex(result.stderr, r"xpurun: ending the ranks, for the launcher to start them again \(--on-hang "
                                        r"restart, hang 1 of at most 3\): TERM, 5.0 s grace, KILL")
        self.assertIn("xpurun: the launcher has restarted the ranks", result.stderr)
        self.assertEqual(self.events(), ["hang", "recovery", "end"])

    @long
    def test_a_job_that_goes_on_hanging_is_ended(self):
        result = self.job("--max-hangs", 1, restarts=5, faulty_starts=9)
        self.assertEqual(result.returncode, 124, result.stderr)
        self.assertEqual(self.manifest()["outcome"], "hang")
        self.check_hangs(result, "restart", "kill")
        self.assertIn("xpurun: warning: the ranks are not restarted: this is hang 2 of the run (--max-hangs 1)",
                      result.stderr)

    def test_without_restarts_left_the_job_is_ended(self):
        result = self.job(restarts=0, faulty_starts=9)
        self.assertEqual(result.returncode, 124, result.stderr)
        self.check_hangs(result, "kill")
        self.assertIn("xpurun: warning: the ranks are not restarted: the launcher was started without --max-restarts",
                      result.stderr)


if __name__ == "__main__":
    xpurun_test.main()
