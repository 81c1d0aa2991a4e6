"""`xpurun analyze` and the section "Speed" of the report, from span files on disk.

usage: speed_test.py SPEED_TOOL REPORT_TOOL MAKE_RUN.py XPURUN
"""

import html.parser
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SPEED_TOOL, REPORT_TOOL, MAKE_RUN, XPURUN = sys.argv[1:5]
sys.path.insert(0, str(pathlib.Path(MAKE_RUN).parent))
import schemas  # noqa: E402


def captured(rank, waiting):
    """A rank that spends `waiting` of 200 samples in the data loader."""
    return {"rank": rank, "pid": 100 + rank, "worker": False, "thread": "MainThread",
            "stacks": [[[0, 1], waiting], [[0], 200 - waiting]]}


PROFILE = {"schema": "xpurun.profile/1", "about": "run", "host": "h",
           "reason": "slow", "begin_wall_ns": 18 * 10**17 + 10**12, "seconds": 4,
           "interval_s": 0.02, "torn": 0, "notes": [],
           "frames": [{"function": "train", "file": "/job/train.py", "line": 9},
                      {"function": "<read>", "file": "/job/data.py", "line": 40}],
           "tracks": [captured(0, 5), captured(1, 7), captured(2, 4), captured(3, 120)]}


class Speed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory(prefix="xpurun-speed-")
        cls.run_dir = pathlib.Path(cls.dir.name) / "run"
        subprocess.run([sys.executable, MAKE_RUN, cls.run_dir, "--ranks", "4", "--kind", "finished"], check=True)
        subprocess.run([SPEED_TOOL, cls.run_dir, "4", "400", "input"], check=True)
        (cls.run_dir / "captures/1").mkdir(parents=True)
        (cls.run_dir / "captures/1/profile.json").write_text(json.dumps(PROFILE))
        (cls.run_dir / "captures/2").mkdir()  # under way, or failed

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def analyze(self, *words, columns=80, status=0, output=None):
        done = subprocess.run([XPURUN, "analyze", *words], capture_output=True, text=True, check=False,
                              env={"COLUMNS": str(columns), "PATH": "/usr/bin:/bin"})
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if output or status == 0 else done.stderr

    def test_json(self):
        told = json.loads(self.analyze("--format", "json", self.run_dir))
        self.assertEqual(told["schema"], "xpurun.speed/1")
        self.assertEqual((told["source"], told["steps"]), ("optimizer", 399))
        self.assertEqual([(f["ranks"], f["cause"]) for f in told["findings"]], [([3], "input")] * 2)
        self.assertEqual(len(told["ranks"]), 4)
        self.assertLess(abs(told["changes"][0]["step"] - 199), 3)

    def test_text_fits(self):
        for columns in (40, 80):
            text = self.analyze(self.run_dir, columns=columns)
            self.assertTrue(text.startswith("rank 3 (host "), text)
            self.assertLessEqual(max(map(len, text.splitlines())), columns, text)

    def test_systrace(self):
        steps, nodes = map(json.loads, self.analyze("--format", "systrace", self.run_dir).splitlines())
        self.assertTrue(steps["is_anomaly"])
        self.assertEqual(steps["anomaly_type"], "failslow")
        self.assertEqual(steps["anomaly_count_times"], len(steps["anomaly_info"]))
        self.assertRegex(steps["anomaly_info"][0]["anomaly_time"], r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")
        self.assertEqual((nodes["resultCode"], nodes["storage"], nodes["network"]), (201, True, False))
        self.assertEqual([(item["objectId"], item["deviceInfo"], item["relaIds"]) for item in nodes["abnormalDetail"]],
                         [("3", "rank_3", [0, 1, 2])])
        # The loader became slow in the middle of the run.
        own = nodes["abnormalDetail"][0]["kpiData"]
        self.assertGreater(own[-1], 1.1 * own[0])
        self.assertEqual(len(own), len(nodes["normalDetail"][0]["kpiData"]))
        self.assertEqual(len(nodes["normalDetail"]), 3)

    def test_a_capture_names_the_function(self):
        told = json.loads(self.analyze("--format", "json", self.run_dir))
        schemas.check(self, "speed", told)
        self.assertEqual([c["dir"] for c in told["captures"]], ["captures/1"])
        slow = [f for f in told["findings"] if f["problem"] == "slow_rank"]
        self.assertEqual([f["function"] for f in slow], ["<read> (data.py:40)"])
        self.assertIn("rank 3 spends 60 % of its time in <read> (data.py:40), the others 3 %", slow[0]["sentence"])

    def test_wrong_use(self):
        self.assertIn("--format", self.analyze("--format", "xml", self.run_dir, status=2))
        with tempfile.TemporaryDirectory() as empty:
            subprocess.run([sys.executable, MAKE_RUN, empty + "/run", "--kind", "finished"], check=True)
            self.assertIn("no spans", self.analyze(empty + "/run", status=1))

    def test_damaged_files(self):
        with tempfile.TemporaryDirectory() as temporary:
            run = pathlib.Path(temporary) / "run"
            subprocess.run([sys.executable, MAKE_RUN, run, "--ranks", "4", "--kind", "finished"], check=True)
            subprocess.run([SPEED_TOOL, run, "4", "400", "none"], check=True)
            (run / "ranks/0/spans-1.xsp").write_bytes(b"something else")
            half = run / "ranks/1/spans-1.xsp"
            half.write_bytes(half.read_bytes()[: 3 * half.stat().st_size // 4])
            self.assertIn("nothing is slow", self.analyze(run, status=1, output=True))
            (run / "captures/1").mkdir(parents=True)
            (run / "captures/1/profile.json").write_text("{}")
            self.assertIn("nothing is slow", self.analyze(run, status=1, output=True))

    def test_page(self):
        subprocess.run([REPORT_TOOL, "report", self.run_dir], check=True, stdout=subprocess.DEVNULL)
        page = (self.run_dir / "report.html").read_text(encoding="utf-8")
        section = re.search(r'<section id="speed".*?</section>', page, re.S)[0]
        for part in ('<svg class="steps"', '<svg class="heat"', "slower", "Rank 3 (host", 'class="change"'):
            self.assertIn(part, section)
        # Four ranks, one place that calls all_reduce and its lateness, two captured functions.
        self.assertEqual(section.count('scope="row"'), 4 + 2 + 2)
        stack = '<div class="via">train.train &gt; data.&lt;read&gt;</div>'
        self.assertIn(f"&lt;read&gt; (data.py:40){stack}</th><td>3</td>", section)
        html.parser.HTMLParser().feed(section)
        self.assertEqual(json.loads((self.run_dir / "report.json").read_text())["speed"]["steps"], 399)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
