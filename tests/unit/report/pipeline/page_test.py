"""The section "Pipeline" of the report page in headless Chromium: picture and tables, light, dark, narrow and printed.

usage: page_test.py REPORT_TOOL MAKE_RUN.py
"""

import json
import sys

import page_tests

RANKS, STEPS, BATCHES = 4, 3, 4
# Lightness, 0 to 1, of what an element is filled with.
LIGHTNESS = r"""(selector => {
  const [r, g, b] = getComputedStyle(document.querySelector(selector)).fill.match(/[\d.]+/g).map(Number);
  return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255; })"""


class PipelinePage(page_tests.PageTests):
    tool, make_run = sys.argv[1:3]

    def load(self, **look):
        url = self.make("run", "--kind", "finished", "--ranks", str(RANKS), "--pipeline", str(STEPS))
        self.open(url + "#pipeline", **look)

    def count(self, selector):
        return self.js(f"document.querySelectorAll({selector!r}).length")

    def test_boxes_and_tables(self):
        self.load()
        self.assertIn("stage 1 (rank 1) is critical", self.text("#pipeline .lead"))
        # Two steps are drawn.
        self.assertEqual(self.count("svg.gantt .job-forward"), 2 * RANKS * BATCHES)
        self.assertEqual(self.count("svg.gantt .job-optimizer"), 2 * RANKS)
        self.assertIn("forward of micro-batch 3", self.js("document.querySelector('svg.gantt').textContent"))
        rows = json.loads(self.js("""JSON.stringify(Array.from(document.querySelectorAll("#pipeline table"))
            .map(t => t.tBodies[0].rows.length))"""))
        self.assertEqual(rows, [RANKS, STEPS])
        report = json.loads((self.folder / "run" / "report.json").read_text(encoding="utf-8"))
        self.assertEqual(report["pipeline"]["pipelines"][0]["critical"], 1)

    def test_jobs_of_a_stage_do_not_overlap(self):
        self.load()
        overlaps = self.js("""(() => { const rows = {}; let bad = 0;
            document.querySelectorAll("svg.gantt rect.job[height='24']").forEach(r => {
              const b = r.getBoundingClientRect(); (rows[r.getAttribute("y")] ||= []).push([b.left, b.right]); });
            for (const row of Object.values(rows)) { row.sort((a, b) => a[0] - b[0]);
              row.forEach((b, i) => { bad += i > 0 && b[0] < row[i - 1][1] - 0.01; }); }
            return [Object.keys(rows).length, bad].join(); })()""")
        self.assertEqual(overlaps, f"{RANKS},0")

    def test_light_dark_and_narrow(self):
        for scheme, is_light in (("light", True), ("dark", False)):
            for width in (360, 1000):
                with self.subTest(scheme=scheme, width=width):
                    self.load(scheme=scheme, width=width)
                    self.assertEqual(self.js("document.documentElement.scrollWidth"), width)
                    # Text on a box differs from the box.
                    for kind in ("forward", "backward"):
                        box, text = (self.js(f"{LIGHTNESS}({selector!r})")
                                     for selector in (f"svg.gantt .job-{kind}", f"svg.gantt .on{kind}"))
                        self.assertGreater(abs(box - text), 0.3, kind)
                    label = self.js(f"{LIGHTNESS}('svg.gantt .stage')")
                    self.assertEqual(label < 0.5, is_light)

    def test_no_pipeline_no_section(self):
        self.open(self.make("plain", "--calls", "3"))
        self.assertEqual(self.count("#pipeline"), 0)
        self.assertNotIn("pipeline", json.loads((self.folder / "plain" / "report.json").read_text(encoding="utf-8")))


if __name__ == "__main__":
    page_tests.main()
