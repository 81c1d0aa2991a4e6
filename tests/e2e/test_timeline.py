"""xpurun timeline: run directories, trace directories and files into traces."""

import gzip
import json
import subprocess

import make_events
import xpurun_test
from xpurun_test import PROGRAM


class Timeline(xpurun_test.Case):
    def setUp(self):
        super().setUp()
        self.run_dir = self.dir / "run"
        for rank in range(4):
            make_events.write_rank(self.run_dir / "ranks" / str(rank) / "events-1.xev", rank, 4,
                                   make_events.training_events(5, late_ns=rank * 1000), hosts=2,
                                   clock_error_ns=7_000_000)
        (self.run_dir / "run.json").write_text("{}")

    def timeline(self, *args, status=0, **kwargs):
        done = subprocess.run([PROGRAM, "timeline", *map(str, args)], capture_output=True, timeout=60,
                              cwd=self.dir, **kwargs)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_a_run_directory(self):
        told = self.timeline(self.run_dir).stdout.decode()
        trace = self.run_dir / "timeline.perfetto-trace"
        self.assertIn("200 slices of 4 processes", told)
        self.assertIn("ends of 15 collectives differ by 0.0 us (median), 0.0 us (worst)", told)
        self.assertIn("node1: -7000.0 us", told)
        self.assertIn("groups of 2 by 1: 2 (0-1, ...)", told)
        self.assertIn(str(trace), told)
        self.assertEqual(trace.stat().st_mode & 0o777, 0o600)
        self.assertEqual(trace.read_bytes().count(b"matmul 4096x4096x4096 bf16"), 4)
        self.assertFalse([f for f in self.run_dir.iterdir() if f.name.endswith(".part")])

    def test_standard_output_and_gzip(self):
        plain = self.timeline("-o", "-", self.run_dir).stdout
        packed = self.timeline("-o", "-", "--compress", self.run_dir).stdout
        self.assertEqual(gzip.decompress(packed), plain)
        self.assertLess(len(packed), len(plain) / 4)

    def test_selection(self):
        told = self.timeline("--ranks", "0-1", "--only", "matmul,memory", "--time", ":0.0039", self.run_dir).stdout
        self.assertIn(b"28 slices of 2 processes", told)
        told = self.timeline("--groups", "tp2-dp2", "--first-group", self.run_dir).stdout
        self.assertIn(b"of 3 processes", told)
        self.assertIn(b"rank 2 (tp0 dp1), node1, NVIDIA H200",
                      (self.run_dir / "timeline.perfetto-trace").read_bytes())

    def test_chrome(self):
        self.timeline("--format", "chrome", "-o", "json", self.run_dir)
        self.assertEqual(sorted(f.name for f in (self.dir / "json").iterdir()), [f"rank-{r}.json" for r in range(4)])
        for rank in range(4):
            trace = json.loads((self.dir / "json" / f"rank-{rank}.json").read_text())
            self.assertEqual(trace["distributedInfo"]["rank"], rank)
            self.assertEqual(sum(e.get("cat") == "kernel" for e in trace["traceEvents"]), 40)
        self.timeline("-o", "again.trace", self.dir / "json" / "rank-3.json")

    def test_its_own_trace_is_read_again(self):
        """With the same slices, and for diff as the run itself."""
        trace = self.dir / "job.perfetto-trace"
        self.timeline("-o", trace, self.run_dir)
        told = self.timeline("-o", "again", trace).stdout.decode()
        self.assertIn("200 slices of 4 processes", told)
        self.assertIn("ends of 15 collectives differ by 0.0 us (median), 0.0 us (worst)", told)
        (self.run_dir / "run.json").unlink()  # is empty
        done = subprocess.run([PROGRAM, "diff", "--format", "json", self.run_dir, trace], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        compared = json.loads(done.stdout)
        self.assertEqual((compared["only_a"], compared["only_b"]), ([], []), compared)
        self.assertIn("no significant difference", compared["sentence"])

    def test_damage_is_named_and_the_rest_is_shown(self):
        path = self.run_dir / "ranks" / "2" / "events-1.xev"
        path.write_bytes(path.read_bytes()[:-10])
        (self.run_dir / "ranks" / "3" / "events-1.xev").write_bytes(b"\0" * 100)
        done = self.timeline(self.run_dir, status=1)
        self.assertIn(b"ranks/2/events-1.xev: the end is missing or damaged", done.stderr)
        self.assertIn(b"ranks/3/events-1.xev", done.stderr)
        self.assertIn(b"100 slices of 2 processes", done.stdout)

    def test_wrong_usage_and_nothing_to_show(self):
        for wrong in (["--ranks", "x"], ["--time", "5"], ["--time", "5:4"], ["--only", "all"], ["--groups", "tp"],
                      ["--first-group"], ["--format", "svg"], ["--format", "chrome", "-o", "-"]):
            with self.subTest(wrong):
                self.timeline(*wrong, self.run_dir, status=2)
        self.timeline(status=1)  # no run is the latest
        self.assertIn(b"E-NO-RUN", self.timeline(self.dir / "absent", status=1).stderr)
        self.assertFalse((self.dir / "timeline.perfetto-trace").exists())


if __name__ == "__main__":
    xpurun_test.main()
