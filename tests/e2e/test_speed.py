"""Slow jobs of two ranks with torch: which rank, why and since when, afterwards and while the job runs."""

import json
import unittest

import xpurun_test
from lane import long
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
class SpeedCase(xpurun_test.Case):
    def job(self, fault, steps, since, *options):
        env = self.env(RENDEZVOUS=str(self.dir / f"store-{fault}"))
        result = self.run_xpurun(*options, "--no-report", "--", "bash", "-c", RANKS, "ranks", PYTHON, JOB, fault, steps,
                                 since, env=env)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def analysis(self):
        return json.loads(self.run_xpurun("analyze", "--format", "json", self.out, out=False).stdout)


class Speed(SpeedCase):
    @long
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

    def test_a_capture_names_the_function(self):
        self.job("input", 200, 80, "--slow-capture", "2s")
        profile = json.loads((self.out / "captures/1/profile.json").read_text())
        self.assertEqual((profile["schema"], profile["reason"]), ("xpurun.profile/1", "slow"))
        report = self.analysis()
        captured = report["captures"][0]
        self.assertEqual((captured["dir"], captured["ranks"]), ("captures/1", [0, 1]))
        first = captured["functions"][0]
        self.assertEqual((first["function"], first["ranks"]), ("Numbers.__getitem__", [1]), captured["functions"][:3])
        slow = [f for f in report["findings"] if f["problem"] == "slow_rank"]
        self.assertIn("in a capture, rank 1 spends ", slow[0]["sentence"])
        self.assertRegex(slow[0]["function"], r"^Numbers\.__getitem__ \(slow_loader_job\.py:\d+\)$")
        text = self.run_xpurun("analyze", self.out, out=False).stdout
        self.assertIn("captures/1, ", text)

    @long
    def test_checkpoints_are_pauses(self):
        result = self.job("checkpoint", 200, 25)
        self.assertNotIn("slower", result.stderr)
        report = self.analysis()
        self.assertEqual([f for f in report["findings"] if f["severity"] != "note"], [], report["findings"])
        self.assertEqual(report["changes"], [])
        pause, = report["stage_pauses"]
        self.assertEqual((pause["stage"], pause["ranks"], pause["every"], pause["name"], pause["slow"]),
                         ("checkpoint", [0], 25, "torch.save", []))
        self.assertGreaterEqual(pause["count"], 7)
        self.assertGreater(pause["median_s"], 0.39)
        self.assertRegex(pause["sentence"], r"^checkpoint of [\d.]+ m?s every 25 steps, in torch\.save at "
                                            r"slow_loader_job\.py:\d+ \([\w.<>]+\), \d+ % of the time$")
        self.assertLess(report["step_s"], pause["median_s"] / 2)  # a usual step does not contain the pause
        self.assertLess(report["step_s"], 0.2)
        self.assertIn(pause["sentence"], " ".join(self.run_xpurun("analyze", self.out, out=False).stdout.split()))

    @long
    def test_nothing_slow(self):
        result = self.job("none", 160, 0)
        self.assertNotIn("slower", result.stderr)
        report = self.analysis()
        self.assertGreater(report["steps"], 100)
        self.assertEqual([f for f in report["findings"] if f["severity"] != "note"], [])
        self.assertNotIn("slowdowns", self.manifest())
        self.assertFalse((self.out / "captures").exists())

    def test_told_while_it_runs(self):
        log = self.dir / "events"
        result = self.job("all", 160, 80, "--on-event", f"cat >> '{log}'", "--on-event-kinds", "slow")
        lines = [line for line in result.stderr.splitlines() if "the job has been" in line]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertRegex(lines[0], r"^xpurun: the job has been \d+ % slower since step \d+ \(\d\d:\d\d:\d\d UTC\): ")
        told = self.manifest()["slowdowns"]
        self.assertEqual(len(told), 1)
        self.assertLess(abs(told[0]["step"] - 79), 10)
        self.assertGreater(told[0]["share"], 0.5)
        event = json.loads(log.read_text())
        self.assertEqual(event["event"], "slow")
        self.assertIn(event["sentence"], lines[0])


if __name__ == "__main__":
    xpurun_test.main()
