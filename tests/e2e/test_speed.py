"""Slow jobs of two ranks with torch: which rank, why and since when."""

import json
import unittest

import xpurun_test
from xpurun_test import PYTHON, SOURCE

JOB = SOURCE / "tests" / "e2e" / "jobs" / "slow_loader_job.py"
RANKS = r"""
for r in 0 1; do
  RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 "$@" &
  pids="$pids $!"
done
for pid in $pids; do wait $pid || exit 1; done
"""


@unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
class Speed(xpurun_test.Case):
    def job(self, fault, steps, since):
        env = self.env(RENDEZVOUS=str(self.dir / f"store-{fault}"))
        result = self.run_xpurun("--no-report", "--", "bash", "-c", RANKS, "ranks", PYTHON, JOB, fault, steps,
                                 since, env=env)
        self.assertEqual(result.returncode, 0, result.stderr)

    def analysis(self):
        return json.loads(self.run_xpurun("analyze", "--format", "json", self.out, out=False).stdout)

    def test_a_slow_loader_of_one_rank(self):
        self.job("input", 160, 80)
        report = self.analysis()
        self.assertEqual((report["source"], len(report["ranks"])), ("optimizer", 2))
        slow = [f for f in report["findings"] if f["problem"] == "slow_rank"]
        self.assertEqual([(f["ranks"], f["cause"]) for f in slow], [([1], "input")], report["findings"])
        self.assertLess(abs(slow[0]["since"] - 79), 10, slow)
        self.assertAlmostEqual(slow[0]["lost_s"], slow[0]["share"] * report["step_s"], places=5)
        self.assertGreater(slow[0]["share"], 0.3)
        self.assertGreater(slow[0]["lost_s"], 0.03)
        self.assertEqual(report["sentence"].split(" costs ")[0].split()[:2], ["rank", "1"])

    def test_nothing_slow(self):
        self.job("none", 160, 0)
        report = self.analysis()
        self.assertGreater(report["steps"], 100)
        self.assertEqual([f for f in report["findings"] if f["severity"] != "note"], [])


if __name__ == "__main__":
    xpurun_test.main()
