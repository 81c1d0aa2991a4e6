"""axe-core finds no violation on any kind of page, light and dark, with every part of the page open. axe-core comes
from PyPI (axe-playwright-python, without its dependencies) in a virtual environment that this test makes, or from the
file that XPURUN_AXE names. Skipped (77) if neither is there.

usage: accessibility_test.py REPORT_TOOL MAKE_RUN.py
"""

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
    "finished": ["--kind", "finished"],
    "pipeline": ["--kind", "finished", "--pipeline", "3"],
    "running": ["--kind", "running"],
    "many": ["--ranks", "300", "--threads", "2"],
}
VIEWS = {"": "", "search": "#stacks?q=train", "compare": "#stacks?compare=ranks&group=2&against=0",
         "function": "#stacks?fn=train (train.py:44)", "text": "#stacks?text=1"}
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
    tool, make_run = sys.argv[1:3]
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
