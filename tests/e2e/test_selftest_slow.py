"""xpurun selftest --slow: rank, cause and begin of every slow job are right. Runs while no other test runs."""

import json
import unittest

import xpurun_test
from test_selftest import SelftestCase

NEED_A_GPU = {"extra-sync", "shared-gpu", "slow-link"}
ON_THE_CPU = {"slow-loader", "garbage-storm", "busy-core", "slower-model", "slow-checkpoint", "alternating-shapes",
              "nothing-slow"}


@unittest.skipUnless(xpurun_test.have_torch(), "no torch")
class SlowJobs(SelftestCase):
    def test_rank_and_cause_of_every_slow_job_are_right(self):
        done = self.selftest("--slow", "--json", "--keep", timeout=1100)
        report = json.loads(done.stdout)
        trials = {trial["injection"]: trial for trial in report["trials"]}
        self.assertEqual(set(trials), ON_THE_CPU | NEED_A_GPU)
        wrong = {name: (trial["differences"], (trial["given"] or {}).get("evidence"))
                 for name, trial in trials.items() if trial["result"] == "wrong"}
        self.assertEqual(wrong, {})
        skipped = {name: trial["reason"] for name, trial in trials.items() if trial["result"] == "skipped"}
        self.assertEqual({name: skipped.pop(name, None) for name in NEED_A_GPU},
                         dict.fromkeys(NEED_A_GPU, "on GPUs only (--gpu)"))
        # Each test was tried three times before programs other than tests were blamed.
        for reason in skipped.values():
            self.assertRegex(reason, "^other programs used")
        self.assertLessEqual(len(skipped), len(ON_THE_CPU) // 2, skipped)
        self.assertEqual(done.returncode, 0)
        slow = trials["slow-loader"]
        if slow["result"] == "right":
            self.assertEqual((slow["given"]["id"], slow["given"]["ranks"]), ("slow_rank.input", [1]))
            self.assertGreater(slow["steps"], 0)
            self.assertGreater(slow["seconds"], 0)


if __name__ == "__main__":
    xpurun_test.main()
