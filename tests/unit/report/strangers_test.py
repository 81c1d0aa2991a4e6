"""Five tasks of somebody who sees the page for the first time, done by keyboard in headless Chromium from the page
alone: the culprit's line, its traceback, what rank 3 waits for, copying the verdict, comparing ranks 0 and 2.

usage: strangers_test.py REPORT_TOOL MAKE_RUN.py
"""

import sys

import page_tests

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


if __name__ == "__main__":
    page_tests.main()
