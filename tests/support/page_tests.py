"""What tests of the report page in headless Chromium share: made run directories, their pages, and shorthands."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import chromium

SOURCE = pathlib.Path(__file__).resolve().parents[2]

HELPERS = """
window.t = {
  frame: text => Array.from(document.querySelectorAll("#stage .f"))
    .find(g => g.querySelector("title").textContent.startsWith(text)),
  width: g => +g.querySelector("rect").getAttribute("width"),
  click: g => g.dispatchEvent(new MouseEvent("click", { bubbles: true })),
  put: (name, value) => {
    const el = document.getElementById("view").elements[name];
    if (el.type === "checkbox") el.checked = value; else el.value = value;
    (el.length && !el.options ? Array.from(el).find(r => r.checked) : el)
      .dispatchEvent(new Event("input", { bubbles: true }));
  },
  text: id => document.getElementById(id).textContent,
  labels: () => Array.from(document.querySelectorAll("#stage .f"))
    .map(g => g.querySelector("title").textContent.split("\\n")[0]),
};
Promise.resolve(xpurun.ready).then(() => 1)
"""

# What is copied comes here instead of into the clipboard, which headless browsers refuse.
CLIPBOARD = """
Object.defineProperty(navigator, "clipboard", {
  value: { writeText: text => { window.copied = text; return Promise.resolve(); } }
});
1
"""


class PageTests(unittest.TestCase):
    """Sub-classes set `tool` and `make_run`."""

    tool = make_run = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.browser = cls.enterClassContext(chromium.Browser())
        cls.page = cls.browser.page(width=1000)

    @classmethod
    def make(cls, name, *flags, language="en"):
        """The address of the page of a made run."""
        run = cls.folder / name
        if not run.exists():
            subprocess.run([sys.executable, cls.make_run, run, *flags], check=True)
            subprocess.run([cls.tool, "report", run, language], check=True)
        return (run / "report.html").as_uri()

    def open(self, url, **look):
        self.page.look(**{"width": 1000, **look})
        self.page.open("about:blank")
        self.page.open(url)
        self.js(HELPERS)
        self.js(CLIPBOARD)

    def js(self, expression):
        return self.page.evaluate(expression)

    def text(self, selector):
        return self.js(f"document.querySelector({selector!r}).innerText")

    def tearDown(self):
        self.assertEqual(self.page.errors(), [])


def main():
    if chromium.PROGRAM is None:
        print("no chromium here")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=1)
