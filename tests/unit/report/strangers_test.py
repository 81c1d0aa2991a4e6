"""Tasks of somebody who sees the page for the first time, done in headless Chromium from the page alone: the culprit's
line, its traceback, what rank 3 waits for, copying the verdict, comparing ranks 0 and 2; which rank is slow, since when
and why; the longest idle gap; what a rank reads; who holds a lock; from a rank's number to its row and its stacks.

usage: strangers_test.py REPORT_TOOL MAKE_RUN.py
"""

import subprocess
import sys
import tarfile

import page_tests

RECORDED = page_tests.SOURCE / "tests/data/gpu_runs"

WINDOW = 900  # height in pixels


class StrangersTasks(page_tests.PageTests):
    tool, make_run = sys.argv[1:3]

    def hang(self):
        self.open(self.make("hang", "--source"), width=1400, height=WINDOW)

    def focus_by_tab(self, found, most=80):
        """Presses Tab until the focused element fulfils the expression."""
        for _ in range(most):
            self.page.key("Tab")
            if self.js(f"(el => {found})(document.activeElement)"):
                return
        self.fail(f"no way to it by Tab: {found}")

    def type(self, text):
        for c in text:
            self.page.key(c, c)

    def test_the_culprits_line(self):
        self.hang()
        line = self.js(
            "(el => ({ text: el.innerText, top: el.getBoundingClientRect().top }))"
            "(document.querySelector('.line.here'))"
        )
        self.assertIn("time.sleep(3600)", line["text"])
        self.assertIn("31", line["text"])
        self.assertLess(line["top"], WINDOW)  # without scrolling
        self.assertIn("train.py:31", self.text("#source figcaption"))
        self.assertIn("train.py:31", self.text("#headline"))

    def test_its_traceback(self):
        self.open(self.make("exception", "--kind", "exception", "--source"), width=1400, height=WINDOW)
        self.focus_by_tab("el.hash === '#tracebacks'")
        self.page.key("Enter")
        traceback = self.text("#tracebacks pre")
        self.assertTrue(traceback.startswith("Traceback (most recent call last):"), traceback)
        self.assertIn("KeyError: 'label'", traceback)
        self.assertLess(self.js("document.querySelector('#tracebacks pre').getBoundingClientRect().top"), WINDOW)

    def test_what_rank_3_waits_for(self):
        self.hang()
        self.focus_by_tab("el.hash === '#waiting'")
        self.page.key("Enter")
        rows = self.js("Array.from(document.querySelectorAll('#waiting tbody tr')).map(tr => tr.innerText)")
        of_rank_3 = [row for row in rows if "3" in row.split("\t")[0]]
        self.assertEqual(len(of_rank_3), 1, rows)
        self.assertIn("all_reduce", of_rank_3[0])
        self.assertIn("train.py:44", of_rank_3[0])

    def test_copy_the_verdict(self):
        self.hang()
        self.focus_by_tab("el.textContent === 'Copy verdict'")
        self.page.key("Enter")
        self.assertRegex(self.js("window.copied"), r"^hang: rank 2 .*train\.py:31")
        self.assertEqual(self.js("document.activeElement.nextElementSibling.textContent"), "copied")
        self.focus_by_tab("el.textContent === 'Copy as Markdown'", most=1)
        self.page.key("Enter")
        markdown = self.js("window.copied")
        for part in ("**hang: rank 2", ">   31", "ranks 0-1,3 in", "**Next:**"):
            self.assertIn(part, markdown)

    def test_compare_ranks_0_and_2(self):
        self.hang()
        self.focus_by_tab("el.localName === 'summary' && el.textContent.startsWith('Filter, compare')")
        self.page.key("Enter")
        self.focus_by_tab("el.name === 'compare'")
        self.page.key("r", "r")  # "ranks with other ranks"
        self.assertEqual(self.js("document.activeElement.value"), "ranks")
        self.focus_by_tab("el.name === 'group'", most=1)
        self.type("0")
        self.focus_by_tab("el.name === 'against'", most=1)
        self.type("2")
        words = self.js("t.text('difference')")
        self.assertRegex(words, r"^Equal up to main \(train\.py:52\)\. From there, rank 0: train \(train\.py:44\)")
        self.assertRegex(words, r"; rank 2: train \(train\.py:40\)")
        self.assertIn("load_batch (train.py:31)", words)
        # The culprit keeps the culprit's colour.
        self.assertRegex(self.js("t.frame('load_batch').getAttribute('class')"), r"\bup3\b")
        self.assertRegex(self.js("t.frame('all_reduce').getAttribute('class')"), r"\bdn3\b")

    def recorded(self, name):
        run = self.folder / name
        if not run.exists():
            with tarfile.open(RECORDED / f"{name}.tar.xz") as packed:
                packed.extractall(self.folder, filter="data")
            subprocess.run([self.tool, "report", run, "en"], check=True)
        self.open((run / "report.html").as_uri(), width=1280, height=800)

    def test_which_rank_is_slow_since_when_and_why(self):
        self.recorded("extra-sync")
        self.assertRegex(self.text("#headline"), r"^Rank 1 costs \d+ % of every step .*since \d\d:\d\d:\d\d UTC$")
        self.assertLessEqual(len(self.text("#headline")), 120)
        self.assertRegex(self.text("#speed .finding h3"),
                         r"Rank 1 .*since step 250 .*waits 220 times a step for a value")

    def test_the_longest_idle_gap(self):
        self.recorded("extra-sync")
        self.js("Promise.resolve(xpurun.timelineReady).then(() => 1)")
        self.js("document.getElementById('tl-gap').click()")
        first = self.text("#tl-info")
        self.assertRegex(first, r"^Gap 1: rank \d, [\d.]+ m?s without a timed call from \d\d:\d\d:\d\d\.\d+ on, "
                                r"after .+, before .+")
        self.js("document.getElementById('tl-gap').click()")
        self.assertRegex(self.text("#tl-info"), "^Gap 2: ")

    def test_what_the_culprit_reads(self):
        self.open(self.make("reads", "--source", "--reads", "/mnt/data/image.bin"), width=1280, height=800)
        self.assertIn("open /mnt/data/image.bin", self.text("#headline"))
        self.assertEqual(self.text("#next-command"), "timeout 5 stat /mnt/data/image.bin")

    def test_which_rank_holds_the_lock(self):
        self.open(self.make("lock", "--lock", "/data/cache.lock"), width=1280, height=800)
        self.assertRegex(self.text("#headline"), r"^Rank 2 holds a lock in ")
        self.assertIn("cache.lock", self.text(".detail"))

    def test_the_first_screen(self):
        self.open(self.make("hang", "--source"), width=1280, height=800)
        for part in ("#headline", ".chips", ".line.here", "#waiting tbody tr", "#next .step"):
            bottom = self.js(f"document.querySelector({part!r}).getBoundingClientRect().bottom")
            self.assertLessEqual(bottom, 800, part)
        self.assertLessEqual(self.js("document.querySelectorAll('nav a').length"), 7)

    def test_from_a_rank_to_its_row_and_its_stacks(self):
        self.hang()
        self.js("document.querySelector('#waiting .rank-link').click()")
        shown = self.js("Array.from(document.querySelectorAll('#ranks tbody tr')).filter(tr => !tr.hidden).length")
        self.assertEqual(shown, 3)
        self.js("document.querySelector('#ranks tbody tr:not([hidden]) a').click()")
        self.assertEqual(self.js("location.hash"), "#stacks?ranks=0")

    def test_the_time_line_by_pointer_and_keys(self):
        self.hang()
        self.js("document.querySelector('#times td.track').focus()")
        self.page.key("ArrowRight")
        self.assertRegex(self.text("#times-info"), r"^\d\d:\d\d:\d\d · \d+ s in")


if __name__ == "__main__":
    page_tests.main()
