"""The calls over time on the report page, in headless Chromium: what is drawn, mouse and keyboard, search, and what is
left without scripts and on paper.

usage: timeline_page_test.py REPORT_TOOL MAKE_RUN.py
"""

import json
import re
import sys

import page_tests

RANKS = 4


class TimelinePage(page_tests.PageTests):
    tool, make_run = sys.argv[1:3]

    def load(self, name="run", ranks=RANKS, steps=20):
        self.open(self.make(name, "--ranks", str(ranks), "--calls", str(steps)))
        self.js("Promise.resolve(xpurun.timelineReady).then(() => xpurun.timeline.draw()).then(() => 1)")

    def view(self):
        return json.loads(self.js("JSON.stringify(xpurun.timeline.view())"))

    def press(self, *keys):
        for key in keys:
            event = f"new KeyboardEvent('keydown', {{key: {key!r}}})"
            self.js(f"document.getElementById('tl-canvas').dispatchEvent({event})")

    def colours(self):
        """Number of different colours on the canvas."""
        return self.js("""(() => { const c = document.getElementById("tl-canvas"), seen = new Set();
            const d = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
            d.forEach(v => seen.add(v)); return seen.size; })()""")

    def test_the_calls_are_drawn(self):
        self.load()
        self.assertGreater(self.colours(), 5)
        self.assertIn("4 ranks", self.text("#device .lead"))
        self.assertFalse(self.js("document.querySelector('.tl-moving').hidden"))
        self.assertEqual(self.js("getComputedStyle(document.querySelector('.tl-plain')).display"), "none")

    def test_keyboard_walks_and_zooms(self):
        self.load()
        whole = self.view()
        self.press("ArrowDown", "ArrowDown", "ArrowRight")
        self.assertIn("matmul", self.view()["selected"])
        told = self.js("document.getElementById('tl-info').textContent")
        self.assertIn("rank 0, compute: matmul", told)
        self.assertRegex(told, r"transposes \w\w, flop \d+, [\d.]+ TFLOP/s")
        self.press("+", "+")
        near = self.view()
        self.assertLess(near["to"] - near["from"], (whole["to"] - whole["from"]) / 3)
        self.press("d")
        self.assertGreater(self.view()["from"], near["from"])
        self.press("Home", "Escape")
        self.assertEqual(self.view(), whole)

    def test_a_collective_is_joined_on_all_ranks(self):
        self.load()
        self.press("ArrowDown", "ArrowDown", "ArrowDown")
        self.assertIn("AllReduce", self.view()["selected"])
        self.assertGreater(self.view()["meeting"], 0)
        self.assertIn("on all ranks", self.js("document.getElementById('tl-info').textContent"))

    def test_the_longest_label_has_room(self):
        self.load()
        self.js("""(() => { CanvasRenderingContext2D.prototype.measureText = () => ({width: 300});
            xpurun.timeline.draw(); })()""")
        self.assertGreaterEqual(self.view()["labels"], 300)

    def test_every_range_has_an_axis_on_a_narrow_page(self):
        self.load()
        self.page.look(width=320)
        for _ in range(8):
            self.press("+")
            self.js("xpurun.timeline.draw()")
        self.assertEqual(self.page.errors(), [])

    def test_search_counts_calls(self):
        self.load()
        self.js("(q => { q.value = 'reducesc'; q.dispatchEvent(new Event('input')); })"
                "(document.getElementById('tl-query'))")
        self.assertEqual(self.js("document.getElementById('tl-found').textContent"), f"{20 * RANKS} calls")
        hits = []
        for _ in range(3):
            self.js("document.getElementById('tl-next').click()")
            hits.append(self.js("document.getElementById('tl-info').textContent"))
        self.assertEqual(len(set(hits)), 3, hits)
        for told in hits:
            self.assertIn("rank 0, communication: ReduceScatter", told)
            self.assertRegex(told, r"bytes \d+, .*, [\d.]+ GB/s")

    def test_still_picture(self):
        self.load()
        page = (self.folder / "run" / "report.html").read_text()
        self.assertIn('class="tl-compute"', page)
        self.assertIn('class="tl-communication"', page)
        self.assertEqual(len(re.findall(r"<text x=\"0\" y=\"\d+\">rank \d</text>", page)), RANKS)

    def test_many_calls_stay_fluid(self):
        self.load("many", ranks=64, steps=1000)
        page = self.folder / "many" / "report.html"
        self.assertLess(page.stat().st_size, 4 << 20)
        # Calls that share a pixel are drawn once, so many calls are as fluid as few. A timer would measure the machine.
        self.js("""(() => { const draw = CanvasRenderingContext2D.prototype.fillRect; window.drawn = 0;
            CanvasRenderingContext2D.prototype.fillRect = function (...box) { ++drawn; draw.apply(this, box); };
            xpurun.timeline.draw(); })()""")
        pixels, rows = json.loads(self.js("""(c => JSON.stringify([c.clientWidth, c.clientHeight / 10]))(
            document.getElementById("tl-canvas"))"""))
        drawn = self.js("drawn")
        self.assertGreater(drawn, rows)
        self.assertLess(drawn, pixels * rows)
        self.assertLess(drawn, 64 * 1000)
        self.assertIn("are one block", self.text("#device .lead"))

    def test_no_events_no_section(self):
        self.open(self.make("plain"))
        self.assertTrue(self.js("document.getElementById('device') === null"))


if __name__ == "__main__":
    page_tests.main()
