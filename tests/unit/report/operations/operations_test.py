"""The tables of operations in `xpurun analyze` and in the report, from event files on disk.

usage: operations_test.py REPORT_TOOL MAKE_RUN.py XPURUN
"""

import html.parser
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import make_events

REPORT_TOOL, MAKE_RUN, XPURUN = sys.argv[1:4]
STEPS = 60


def add_trace(run, name="1-steps-5-6", kinds=("matmul", "collective", "memory"), begin=2_000_000_000):
    """All ranks trace 20 steps; rank 2 comes late."""
    trace = run / "traces" / name
    trace.mkdir(parents=True)
    ranks = []
    for rank in range(4):
        events = make_events.training_events(20, 300_000 if rank == 2 else 0, begin=begin)
        make_events.write_rank(trace / f"rank-{rank}.xev", rank, 4, events)
        ranks.append({"rank": rank, "events": events.count, "file": f"rank-{rank}.xev"})
    (trace / "trace.json").write_text(json.dumps({
        "schema": "xpurun.trace/1", "ended": "complete", "count": 1_000_000, "kinds": list(kinds),
        "start_wall_ns": make_events.WALL + begin, "start_mono_ns": begin, "ranks": ranks}))
    return trace


def make_run(where, late_ns=300_000):
    run = pathlib.Path(where) / "run"
    subprocess.run([sys.executable, MAKE_RUN, run, "--ranks", "4", "--kind", "finished"], check=True)
    for rank in range(4):
        events = make_events.training_events(STEPS, late_ns if rank == 2 else 0)
        make_events.write_rank(run / f"ranks/{rank}/events-1.xev", rank, 4, events)
    return run


class Operations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory(prefix="xpurun-operations-")
        cls.run_dir = make_run(cls.dir.name)

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def analyze(self, *words, columns=80, status=0):
        done = subprocess.run([XPURUN, "analyze", *words], capture_output=True, text=True, check=False,
                              env={"COLUMNS": str(columns), "PATH": "/usr/bin:/bin"})
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout

    def test_json(self):
        told = json.loads(self.analyze("--format", "json", self.run_dir))["operations"]
        matmuls = {row["shape"]: row for row in told["matmuls"]}
        self.assertEqual({shape: (row["types"], row["times"]["count"]) for shape, row in matmuls.items()},
                         {"4096x4096x4096": ("bf16", 4 * 3 * STEPS), "4096x1024x4096": ("bf16", 4 * 3 * STEPS)})
        first = matmuls["4096x4096x4096"]
        self.assertAlmostEqual(first["tflops"], 2 * 4096**3 / 190e-6 / 1e12, delta=8)
        self.assertAlmostEqual(first["peak_share"], first["tflops"] / 989.4, delta=0.01)
        scatter = next(row for row in told["collectives"] if row["operation"] == "ReduceScatter")
        self.assertEqual((scatter["communicator"], scatter["group"], scatter["members"]), ("world", "all ranks", "0-3"))
        self.assertEqual([late["rank"] for late in scatter["lateness"]["ranks"]], [2])
        self.assertAlmostEqual(scatter["lateness"]["transfer_s"], 100e-6, delta=2e-6)
        reduce = [row for row in told["collectives"] if row["operation"] == "AllReduce"]
        self.assertEqual([(row["communicator"], row["group"]) for row in reduce], [("tp", "2 by 1")] * 2)
        self.assertEqual(told["memory"][0]["operation"], "cudaMemcpyAsync H2D")
        self.assertTrue(all(rank["exact"] for rank in told["ranks"]))

    def test_idle_time_needs_a_trace(self):
        self.assertIn("not measured: needs a trace (xpurun ctl trace", " ".join(self.analyze(self.run_dir).split()))

    def test_idle_time_of_a_trace(self):
        with tempfile.TemporaryDirectory() as where:
            run = make_run(where)
            add_trace(run, "1-matmuls", kinds=["matmul"])
            trace = add_trace(run, "2-steps-5-6")
            for rank in range(4):
                make_events.write_marks(run / f"ranks/{rank}/spans-1.xsp", rank, STEPS)
            told = json.loads(self.analyze("--format", "json", run))["operations"]
            self.assertEqual([idle["dir"] for idle in told["idle"]], ["traces/2-steps-5-6"])
            idle = told["idle"][0]
            self.assertEqual([row["rank"] for row in idle["ranks"]], [0, 1, 2, 3])
            row = idle["ranks"][1]
            # Of a step of 2 ms: six gaps of 10 us, one of 30 us, and 120 us before the next step.
            self.assertAlmostEqual(row["idle_s"], 20 * 210e-6 - 120e-6, delta=1e-9)
            self.assertAlmostEqual(row["host_wait_s"], row["idle_s"], delta=1e-9)
            self.assertAlmostEqual(row["queue"]["mean"], (6 * 19 + 3 + 8 + 8) / 2000, delta=1e-3)
            self.assertEqual((row["works"], row["timed_share"], row["queue"]["most"]), (180, 1, 1))
            gap = idle["gaps"][0]
            self.assertEqual((gap["rank"], gap["after"], gap["before"]),
                             (2, "AllReduce 32.0 MiB", "ReduceScatter 128 MiB"))
            self.assertAlmostEqual(gap["seconds"], 300e-6, delta=1e-9)
            for columns in (40, 80, 160):
                text = self.analyze(run, columns=columns)
                self.assertLessEqual(max(map(len, text.splitlines())), columns, text)
                for word in ("Idle time and queue.", "Longest gaps.", "HOST WAIT %"):
                    self.assertIn(word, text)
            self.assertIn("100% of the calls were timed", " ".join(text.replace("100 %", "100%").split()))
            subprocess.run([REPORT_TOOL, "report", run], check=True, stdout=subprocess.DEVNULL)
            section = re.search(r'<section id="speed".*?</section>', (run / "report.html").read_text(), re.S)[0]
            self.assertIn("<h3>Idle time and queue</h3>", section)
            self.assertIn("<h3>Longest gaps</h3>", section)
            spread = re.search(r'<svg class="spread".*?</svg>', section, re.S)[0]
            self.assertIn("<desc>", spread)
            self.assertIn("rank 3: median", spread)
            self.assertIn('<circle class="rank"', section)
            names = [row["name"] for row in told["durations"]]
            self.assertEqual(names[0], "step")
            self.assertTrue(any("ReduceScatter" in name for name in names), names)
            # A damaged trace is named and the rest is shown.
            (trace / "rank-1.xev").write_bytes(b"xpurun")
            (trace / "trace.json").write_text((trace / "trace.json").read_text().replace("rank-3", "../../rank-3"))
            told = json.loads(self.analyze("--format", "json", run, status=1))["operations"]
            self.assertEqual([row["rank"] for row in told["idle"][0]["ranks"]], [0, 2, 3])
            (trace / "trace.json").write_text("{")
            self.assertEqual(json.loads(self.analyze("--format", "json", run, status=1))["operations"]["idle"], [])

    def test_text_fits(self):
        for columns in (40, 80, 200):
            text = self.analyze(self.run_dir, columns=columns)
            self.assertLessEqual(max(map(len, text.splitlines())), columns, text)
            for word in ("Matmuls.", "Collectives.", "4096x4096x4096", "Time of the GPUs."):
                self.assertIn(word, text)
        self.assertIn("TFLOP/S", text)

    def test_page(self):
        subprocess.run([REPORT_TOOL, "report", self.run_dir], check=True, stdout=subprocess.DEVNULL)
        page = (self.run_dir / "report.html").read_text(encoding="utf-8")
        section = re.search(r'<section id="speed".*?</section>', page, re.S)[0]
        self.assertEqual(section.count('<table class="sortable">'), 5)
        for part in ("4096x4096x4096", '<svg class="bandwidth"', "ReduceScatter", "TFLOP/s"):
            self.assertIn(part, section)
        html.parser.HTMLParser().feed(section)
        told = json.loads((self.run_dir / "report.json").read_text())
        self.assertEqual(len(told["speed"]["operations"]["matmuls"]), 2)

    def test_hostile_names(self):
        with tempfile.TemporaryDirectory() as temporary:
            run = make_run(temporary)
            path = run / "ranks/0/events-1.xev"
            evil = make_events.entries(0, 4).replace(b"\x05world", b"\x05<b>\x1b[")
            path.write_bytes(make_events.header(0, "node0") + make_events.block(evil)
                             + make_events.block(make_events.training_events(STEPS).data))
            self.assertNotIn("\x1b", self.analyze(run))
            subprocess.run([REPORT_TOOL, "report", run], check=True, stdout=subprocess.DEVNULL)
            self.assertNotIn("<b>", (run / "report.html").read_text(encoding="utf-8"))

    def test_without_steps(self):
        with tempfile.TemporaryDirectory() as temporary:
            run = make_run(temporary)
            for rank in range(4):
                events = make_events.Events()
                for number in range(5):
                    events.add(0, 10**9 + number * 10**6, 200_000, sequence=number)
                make_events.write_rank(run / f"ranks/{rank}/events-1.xev", rank, 4, events)
            text = self.analyze(run)
            self.assertTrue(text.startswith("no stable step"), text)
            self.assertIn("4096x4096x4096", text)
            subprocess.run([REPORT_TOOL, "report", run], check=True, stdout=subprocess.DEVNULL)
            page = (run / "report.html").read_text(encoding="utf-8")
            section = re.search(r'<section id="speed".*?</section>', page, re.S)[0]
            self.assertIn("4096x4096x4096", section)
            self.assertNotIn("Time of a step", section)

    def test_damaged_file(self):
        with tempfile.TemporaryDirectory() as temporary:
            run = make_run(temporary)
            path = run / "ranks/1/events-1.xev"
            path.write_bytes(path.read_bytes()[:-7])  # the block with the events is not whole
            told = json.loads(self.analyze("--format", "json", run, status=1))["operations"]
            self.assertEqual([rank["rank"] for rank in told["ranks"]], [0, 2, 3])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
