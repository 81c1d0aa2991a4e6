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

    def analyze(self, *words, columns=80):
        done = subprocess.run([XPURUN, "analyze", *words], capture_output=True, text=True, check=False,
                              env={"COLUMNS": str(columns), "PATH": "/usr/bin:/bin"})
        self.assertEqual(done.returncode, 0, done.stderr)
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
        self.assertEqual(section.count('<table class="sortable">'), 4)
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
            told = json.loads(self.analyze("--format", "json", run))["operations"]
            self.assertEqual([rank["rank"] for rank in told["ranks"]], [0, 2, 3])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
