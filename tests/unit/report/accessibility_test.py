"""axe-core finds no violation on any kind of page, light and dark, with every part of the page open. axe-core comes
from PyPI (axe-playwright-python, without its dependencies) in a virtual environment that this test makes, or from the
file that XPURUN_AXE names. Skipped (77) if neither is there.

usage: accessibility_test.py REPORT_TOOL MAKE_RUN.py SPEED_TOOL [XPURUN]
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import chromium
import page_tests

PACKAGE = "axe-playwright-python==0.1.8"
KINDS = {
    "hang": ["--source", "--earlier"],
    "calls": ["--calls", "3"],
    "hostile": ["--hostile"],
    "exception": ["--kind", "exception", "--source"],
    "crash": ["--kind", "crash"],
    "finished": ["--kind", "finished"],
    "pipeline": ["--kind", "finished", "--pipeline", "3"],
    "running": ["--kind", "running"],
    "many": ["--ranks", "300", "--threads", "2"],
}
VIEWS = {"": "", "search": "#stacks?q=train", "compare": "#stacks?compare=ranks&group=2&against=0",
         "function": "#stacks?fn=train (train.py:44)", "text": "#stacks?text=1"}
PROFILE = {"schema": "xpurun.profile/1", "about": "run", "host": "h", "reason": "slow", "begin_wall_ns": 1,
           "seconds": 4, "interval_s": 0.02, "torn": 0, "notes": [],
           "frames": [{"function": "train", "file": "/job/train.py", "line": 9},
                      {"function": "<read>", "file": "/job/data.py", "line": 40}],
           "tracks": [{"rank": rank, "pid": 100 + rank, "worker": False, "thread": "MainThread",
                       "stacks": [[[0, 1], waiting], [[0], 200 - waiting]]}
                      for rank, waiting in enumerate((5, 7, 4, 120))]}
RUN = """
axe.run(document, { resultTypes: ["violations"] })
  .then(r => r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html.slice(0, 200)).join(" ")))
"""


def axe_source(folder):
    """(text, reason why there is none)"""
    if "XPURUN_AXE" in os.environ:
        return pathlib.Path(os.environ["XPURUN_AXE"]).read_text(encoding="utf-8"), None
    venv = pathlib.Path(folder) / "venv"
    try:
        subprocess.run([sys.executable, "-m", "venv", venv], check=True, capture_output=True, timeout=60)
        subprocess.run(
            [venv / "bin/pip", "install", "--quiet", "--no-deps", "--retries", "1", "--timeout", "10", PACKAGE],
            check=True, capture_output=True, text=True, timeout=60)
    except subprocess.CalledProcessError as e:
        return None, (e.stderr or "").strip().split("\n")[-1]
    except (OSError, subprocess.TimeoutExpired) as e:
        return None, str(e)
    found = list(venv.rglob("axe.min.js"))
    return (found[0].read_text(encoding="utf-8"), None) if found else (None, f"{PACKAGE} has no axe.min.js")


class Accessibility(page_tests.PageTests):
    tool, make_run, speed_tool, *xpurun = sys.argv[1:]
    axe = None

    def check(self, kind, scheme, view):
        self.check_page(self.make(kind, *KINDS[kind]) + view, scheme)

    def check_page(self, url, scheme):
        self.open(url, width=1280, scheme=scheme)
        self.js("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        self.js(self.axe + ";1")
        self.assertEqual(self.js(RUN), [])

    def test_every_kind_of_page(self):
        for kind in KINDS:
            for scheme in ("light", "dark"):
                with self.subTest(kind=kind, scheme=scheme):
                    self.check(kind, scheme, "")

    def test_a_chinese_page(self):
        for scheme in ("light", "dark"):
            with self.subTest(scheme=scheme):
                self.check_page(self.make("chinese", *KINDS["hang"], language="zh"), scheme)

    def test_the_page_of_stacks_without_a_run(self):
        self.make("hang", *KINDS["hang"])
        page = self.folder / "stacks.html"
        done = subprocess.run([self.tool, "page", self.folder / "hang"], check=True, capture_output=True)
        page.write_bytes(done.stdout)
        for scheme in ("light", "dark"):
            with self.subTest(scheme=scheme):
                self.check_page(page.as_uri(), scheme)

    def check_both(self, page):
        for scheme in ("light", "dark"):
            with self.subTest(scheme=scheme):
                self.check_page(page.as_uri(), scheme)

    def page_of(self, *words):
        """The page that a command of xpurun writes."""
        if not self.xpurun:
            self.skipTest("this build has no xpurun")
        subprocess.run([*self.xpurun, *words], check=True, capture_output=True)

    def made(self, name, *flags):
        subprocess.run([sys.executable, self.make_run, self.folder / name, *flags], check=True)
        return self.folder / name

    def test_the_speed_of_a_job_with_findings_and_a_capture(self):
        run = self.made("speed", "--kind", "finished")
        subprocess.run([self.speed_tool, run, "4", "400", "input"], check=True)
        (run / "captures/1").mkdir(parents=True)
        (run / "captures/1/profile.json").write_text(json.dumps(PROFILE))
        subprocess.run([self.tool, "report", run, "en"], check=True)
        text = (run / "report.html").read_text(encoding="utf-8")
        self.assertIn('id="speed"', text)
        self.assertIn("/job/data.py", text)
        self.check_both(run / "report.html")

    def test_a_job_of_two_nodes(self):
        nodes = [self.made(f"node{n}", "--source") for n in range(2)]
        for n, node in enumerate(nodes):
            of_node = range(2 * n, 2 * n + 2)
            for file in (node / "run.json", node / "dumps/1-hang/dump.json"):
                content = json.loads(file.read_text())
                content["host"] = f"host{n}"
                for part in ("processes", "ranks"):
                    content[part] = [p for p in content.get(part, []) if p["rank"] in of_node]
                file.write_text(json.dumps(content))
            for rank in set(range(4)) - set(of_node):
                (node / f"dumps/1-hang/rank-{rank}.stacks.json").unlink()
        out = self.folder / "job"
        self.page_of("report", "--out", out, *nodes)
        self.assertIn('id="nodes"', (out / "report.html").read_text(encoding="utf-8"))
        self.check_both(out / "report.html")

    def test_flight_recorder_dumps_alone(self):
        source = pathlib.Path(self.make_run).parents[1] / "data/flight_recorder/torch-2.11"
        out = self.folder / "flight"
        self.page_of("report", "--out", out, source)
        self.check_both(out / "report.html")

    def test_the_page_of_a_comparison(self):
        runs = [self.made(f"calls{n}", "--kind", "finished", "--calls", str(3 + n)) for n in range(2)]
        page = self.folder / "diff.html"
        self.page_of("diff", "--format", "html", "--out", page, *runs)
        self.check_both(page)

    def test_every_view_of_the_stacks(self):
        for name, view in VIEWS.items():
            for scheme in ("light", "dark"):
                with self.subTest(view=name, scheme=scheme):
                    self.check("hang", scheme, view)

    def test_a_page_with_a_mistake_is_found(self):
        self.open(self.make("hang", *KINDS["hang"]))
        self.js("document.querySelector('#headline').style.color = '#ffdddd'; 1")
        self.js(self.axe + ";1")
        self.assertRegex("".join(self.js(RUN)), "color-contrast")


if __name__ == "__main__":
    if chromium.PROGRAM is None:
        print("no chromium here")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as place:
        Accessibility.axe, why = axe_source(place)
        if why is not None:
            print(f"SKIP: axe-core cannot be had from PyPI: {why}")
            sys.exit(77)
    page_tests.main()
