"""xpurun run --timeline: traces that the supervisor takes without a request, on fake GPU libraries."""

import json
import os
import re
import subprocess

import event_file
import schemas
import xpurun_test
from xpurun_test import PROGRAM, PYTHON, SOURCE

BUILD = os.environ["XPURUN_TEST_BUILD"]
JOB = SOURCE / "tests" / "e2e" / "jobs" / "stepping_gpu_job.py"
RANKS = """
for r in 0 1; do
  RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 "$@" &
done
wait
"""


class TimelineOption(xpurun_test.Case):
    def run_job(self, *options, steps=90, **kwargs):
        return self.run_xpurun(*options, "--", "bash", "-c", RANKS, "ranks", PYTHON, JOB,
                               f"{BUILD}/tests/preload/libtiming_body13.so", steps, **kwargs)

    def trace(self, name):
        directory = self.out / "traces" / name
        return json.loads((directory / "trace.json").read_text()), directory

    def test_first_and_later_steps(self):
        done = self.run_job("--timeline", "first:20", "--timeline", "steps:110-115,steps:5000-5001",
                            steps=170)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"--timeline steps:5000-5001 was not taken: step \d+ was the last one")
        names = sorted(d.name for d in (self.out / "traces").iterdir())
        self.assertEqual(names, ["1-first-20", "2-steps-110-115"])
        for name, spec in zip(names, ("first:20", "steps:110-115")):
            told, directory = self.trace(name)
            schemas.check(self, "trace", told)
            self.assertEqual((told["timeline"], told["ended"]), (spec, "complete"), told)
            # All ranks begin with a full second of UTC, unless the first trace ends just before these steps.
            if spec.startswith("steps"):
                self.assertLess(told["start_wall_ns"] % 1_000_000_000, 5_000_000)
            self.assertEqual([r["rank"] for r in told["ranks"]], [0, 1])
            for rank in told["ranks"]:
                file = event_file.load(directory / rank["file"])
                self.assertGreater(rank["events"], 100, told)
                self.assertEqual(len(file["events"]), rank["events"])
                self.assertTrue(all(e["begin_ns"] >= told["start_mono_ns"] for e in file["events"]))
        shown = subprocess.run([PROGRAM, "timeline", "-o", self.dir / "t", self.out / "traces" / names[1]],
                               capture_output=True, text=True, timeout=60)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertRegex(shown.stdout, r"slices of 2 processes")
        self.assertIn(b"rank 1", (self.dir / "t").read_bytes())

    def test_every(self):
        done = self.run_job("--timeline", "every:10s", steps=260)
        self.assertEqual(done.returncode, 0, done.stderr)
        told, _ = self.trace("1-every-10s")
        self.assertEqual((told["timeline"], told["ended"]), ("every:10s", "complete"))
        self.assertLess(told["start_wall_ns"] % 10_000_000_000, 5_000_000)

    def test_wrong_values(self):
        for value, said in (("last:5", "is not first:N, first:DURATION, steps:A-B or every:DURATION"),
                            ("steps:9-3", "ends before it begins"), ("every:1s", "is not between 10 s and 7 days"),
                            ("first:5,steps:5-6", "first:5 and steps:5-6 overlap")):
            with self.subTest(value):
                done = self.run_job("--timeline", value)
                self.assertEqual(done.returncode, 125)
                self.assertIn(said, " ".join(done.stderr.split()))
                self.assertFalse(self.out.exists())

    def test_without_a_gpu(self):
        done = self.run_xpurun("--timeline", "first:3", "--", "true")
        self.assertEqual(done.returncode, 0)
        self.assertTrue(re.search("--timeline first:3 was not taken: no rank has used a GPU", done.stderr), done.stderr)


if __name__ == "__main__":
    xpurun_test.main()
