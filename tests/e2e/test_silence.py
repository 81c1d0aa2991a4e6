"""A job whose steps stop ending is reported, and captured once."""

import json

import test_speed
import xpurun_test


class Silence(test_speed.SpeedCase):
    def test_a_silence_is_captured_once(self):
        result = self.job("silence", 90, 60, "--slow-capture", "1s")
        told = [line for line in result.stderr.splitlines() if "the last step ended " in line]
        self.assertEqual(len(told), 1, result.stderr)
        self.assertRegex(told[0], r"ended \d.* s ago, at \d\d:\d\d:\d\d UTC; steps usually take ")
        profiles = sorted(self.out.glob("captures/*/profile.json"))
        self.assertEqual([json.loads(p.read_text())["reason"] for p in profiles].count("silence"), 1)
        captured = next(c for c in self.analysis()["captures"] if c["reason"] == "silence")
        self.assertEqual(captured["functions"][0]["function"], "Model.forward", captured["functions"][:3])
        self.assertIn("when no step had ended for long", " ".join(self.run_xpurun("analyze", self.out,
                                                                                 out=False).stdout.split()))
        self.out = self.dir / "off"
        self.assertNotIn("the last step", self.job("silence", 61, 60, "--slow-capture", "off").stderr)
        self.assertFalse((self.out / "captures").exists())


if __name__ == "__main__":
    xpurun_test.main()
