"""Every control of the page is reached by Tab and does its work by keyboard, in headless Chromium. Skipped (77)
without Chromium.

usage: keyboard_test.py REPORT_TOOL MAKE_RUN.py
"""

import json
import sys

import page_tests

# Numbers every control that Tab must reach; of a group of radio buttons, the chosen one.
NUMBER = """
(() => {
  let n = 0;
  document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']").forEach(el => {
    if (!el.getClientRects().length || getComputedStyle(el).visibility !== "visible") return;
    if ((el.type === "radio" && !el.checked) || el.tabIndex < 0) return;
    el.dataset.control = n++;
  });
  return n;
})()
"""
# Saved files are counted, and not written.
SAVES = """
window.saved = [];
HTMLAnchorElement.prototype.click = function () { window.saved.push(this.download); };
1
"""
OPEN_ALL = "document.querySelectorAll('details').forEach(d => { d.open = true; })"


class ByKeyboard(page_tests.PageTests):
    tool, make_run = sys.argv[1:3]

    def page_of(self, *flags, name, view=""):
        self.open(self.make(name, *flags) + view, width=1280)
        self.js(OPEN_ALL)
        self.js("new Promise(done => setTimeout(done, 50))")

    def hang(self, view=""):
        self.page_of("--source", "--earlier", name="hang", view=view)

    def focus(self, selector):
        self.js(f"document.querySelector({selector!r}).focus()")

    def press(self, selector, key, text=""):
        self.focus(selector)
        self.page.key(key, text)

    def address(self):
        return self.js("location.hash")

    def test_tab_reaches_every_control(self):
        for name, flags in {"hang": ["--source", "--earlier"], "many": ["--ranks", "300", "--threads", "2"],
                            "exception": ["--kind", "exception", "--source"]}.items():
            with self.subTest(page=name):
                self.page_of(*flags, name=name)
                wanted = set(range(self.js(NUMBER)))
                reached = set()
                for _ in range(2 * len(wanted)):
                    self.page.key("Tab")
                    number = self.js("document.activeElement.dataset.control || ''")
                    if number:
                        reached.add(int(number))
                left = [self.js(f"document.querySelector('[data-control=\"{n}\"]').outerHTML.slice(0, 120)")
                        for n in sorted(wanted - reached)]
                self.assertEqual(left, [])

    def test_choices_and_switches(self):
        for selector, key, text, address in (
            ("#layer-merged", "ArrowRight", "", "layer=python"),
            ("#width-ranks", "ArrowRight", "", "width=threads"),
            ("#code-own", "ArrowRight", "", "code=calls"),
            ("[name=diff]", " ", " ", "diff=1"),
            ("[name=reverse]", " ", " ", "reverse=1"),
            ("[name=flame]", " ", " ", "flame=1"),
            ("[name=text]", " ", " ", "text=1"),
            ("[name=process]", "w", "w", "process=worker"),
            ("[name=thread]", "m", "m", "thread=main"),
            ("[name=state]", "s", "s", "state=S"),
            ("[name=compare]", "r", "r", "compare=ranks"),
            ("[name=colors]", "k", "k", "colors=frames"),
            ("[name=ranks]", "2", "2", "ranks=2"),
            ("[name=q]", "z", "z", "q=z"),
        ):
            with self.subTest(control=selector):
                self.hang()
                self.press(selector, key, text)
                self.assertEqual(self.address(), "#stacks?" + address)
                self.press("#reset", "Enter")
                self.assertEqual(self.address(), "")

    def test_buttons_of_a_frame(self):
        self.hang()
        self.press("#stage .f[tabindex='0']", "ArrowDown")
        self.page.key("Enter")
        self.assertIn("zoom=", self.address())
        self.press("#unzoom", "Enter")
        self.assertEqual(self.address(), "")
        self.focus("#stage .f[tabindex='0']")
        self.press("#info-fn", "Enter")
        self.assertIn("fn=", self.address())
        self.press("#sandwich-close", "Enter")
        self.assertEqual(self.address(), "")

    def test_files_and_copies(self):
        self.hang("#stacks?diff=1")
        self.js(SAVES)
        for selector in ("#save-svg", "#save-text", "#download"):
            self.press(selector, "Enter")
        self.js("new Promise(done => setTimeout(done, 100))")
        self.assertEqual(self.js("window.saved"), ["stacks.svg", "stacks.txt", "report.json"])
        self.press("#copy", "Enter")
        self.assertEqual(self.js("window.copied"), "#stacks?diff=1")
        self.press("[data-copy=next-command]", "Enter")
        self.assertIn("xpurun stacks", self.js("window.copied"))

    def test_a_stack_is_copied(self):
        self.hang()
        self.press("#stage .f[tabindex='0']", "ArrowDown")
        self.press("#info-copy", "Enter")
        copied = self.js("window.copied").splitlines()
        self.assertEqual(len(copied), 2)
        self.js("window.copied = ''")
        self.press("#stage .f[tabindex='0']", "c", "c")
        self.assertEqual(self.js("window.copied").splitlines(), copied)

    def test_the_keys_are_listed(self):
        self.hang()
        self.assertTrue(self.js("document.getElementById('keys').hidden"))
        self.press("#keys-button", "Enter")
        self.assertFalse(self.js("document.getElementById('keys').hidden"))
        self.assertEqual(self.js("document.getElementById('keys-button').getAttribute('aria-expanded')"), "true")
        self.press("#keys-button", "?", "?")
        self.assertTrue(self.js("document.getElementById('keys').hidden"))

    def test_levels_of_deep_frames_are_bounded(self):
        self.hang("#stacks?code=all")
        levels = self.js("Array.from(document.querySelectorAll('#stage .f')).map(g => +g.getAttribute('aria-level'))")
        self.assertEqual(max(levels), 6)

    def test_the_timeline(self):
        self.page_of("--calls", "20", name="calls")
        self.js("Promise.resolve(xpurun.timelineReady).then(() => xpurun.timeline.draw()).then(() => 1)")
        def width():
            view = self.js("JSON.stringify(xpurun.timeline.view())")
            view = json.loads(view)
            return view["to"] - view["from"]
        whole = width()
        self.press("#tl-in", "Enter")
        self.page.key("Enter")
        self.assertLess(width(), 0.3 * whole)
        self.press("#tl-out", "Enter")
        self.assertAlmostEqual(width(), 0.5 * whole, delta=0.05 * whole)
        self.press("#tl-all", "Enter")
        self.assertEqual(width(), whole)
        self.focus("#tl-query")
        for letter in "matmul":
            self.page.key(letter, letter)
        self.assertRegex(self.js("document.getElementById('tl-found').textContent"), r"^\d+ calls$")

    def test_heads_of_tables(self):
        self.hang()
        for head in ("#ranks thead", "#functions-head"):
            with self.subTest(table=head):
                self.press(f"{head} button", "Enter")
                first = self.js(f"document.querySelector('{head} th').getAttribute('aria-sort')")
                self.page.key("Enter")
                second = self.js(f"document.querySelector('{head} th').getAttribute('aria-sort')")
                self.assertEqual({first, second}, {"ascending", "descending"})
        self.press("#functions-body button", "Enter")
        self.assertIn("fn=", self.address())


if __name__ == "__main__":
    page_tests.main()
