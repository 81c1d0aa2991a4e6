"""The page in headless Chromium: its scripts by mouse and keyboard, in all sizes and schemes. Skipped (77)
without Chromium. Accessibility is checked by axe-core, if Python's axe_playwright_python or
axe_core_python, or the file that XPURUN_AXE names, provides it, and always by a few rules of this test.

usage: browser_test.py REPORT_TOOL MAKE_RUN.py
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import chromium

TOOL, MAKE_RUN = sys.argv[1:3]

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
xpurun.ready.then(() => 1)
"""

# The most common regressions: contrast of text and controls, names of controls, size of targets, order of headings.
RULES = """
(() => {
  const out = [];
  const rgb = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const lum = c => {
    const f = c.slice(0, 3).map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2];
  };
  const ground = el => {
    for (; el; el = el.parentElement) {
      const c = rgb(getComputedStyle(el).backgroundColor); if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const visible = el => el.getClientRects().length && getComputedStyle(el).visibility === "visible";
  document.querySelectorAll("body *:not(svg *):not(script):not(style)").forEach(el => {
    if (!visible(el) || !Array.from(el.childNodes).some(n => n.nodeType === 3 && n.textContent.trim())) return;
    const a = lum(rgb(getComputedStyle(el).color)), b = lum(ground(el));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) out.push(`contrast ${ratio.toFixed(2)}: ${el.outerHTML.slice(0, 100)}`);
  });
  document.querySelectorAll("input, select, button, a[href], summary").forEach(el => {
    const name = el.getAttribute("aria-label") || el.textContent.trim() ||
      Array.from(el.labels || []).map(l => l.textContent.trim()).join();
    if (visible(el) && !name) out.push(`no name: ${el.outerHTML.slice(0, 100)}`);
    const height = Math.max(...[el, ...(el.labels || [])].map(e => e.getBoundingClientRect().height));
    if (visible(el) && el.localName !== "a" && height < 23.5)
      out.push(`small: ${el.outerHTML.slice(0, 100)} ${height}`);
  });
  let last = 0;
  document.querySelectorAll("h1,h2,h3,h4").forEach(h => {
    if (+h.localName[1] > last + 1) out.push(`heading skips: ${h.textContent}`);
    last = +h.localName[1];
  });
  return out;
})()
"""


def axe_source():
    if "XPURUN_AXE" in os.environ:
        return pathlib.Path(os.environ["XPURUN_AXE"]).read_text(encoding="utf-8")
    for package in ("axe_playwright_python", "axe_core_python"):
        spec = importlib.util.find_spec(package)
        for folder in spec.submodule_search_locations if spec else ():
            for path in pathlib.Path(folder).rglob("axe.min.js"):
                return path.read_text(encoding="utf-8")
    return None


class InChromium(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temp.cleanup)
        cls.run_dir = pathlib.Path(cls.temp.name) / "run"
        subprocess.run([sys.executable, MAKE_RUN, cls.run_dir, "--earlier", "--hostile"], check=True)
        subprocess.run([TOOL, "report", cls.run_dir], check=True)
        cls.url = (cls.run_dir / "report.html").as_uri()
        cls.browser = cls.enterClassContext(chromium.Browser())
        cls.page = cls.browser.page(width=1000)

    def open(self, view="", **look):
        self.page.look(**{"width": 1000, **look})
        self.page.open("about:blank")
        self.page.open(self.url + view)
        self.page.evaluate(HELPERS)

    def js(self, expression):
        return self.page.evaluate(expression)

    def tearDown(self):
        self.assertEqual(self.page.errors(), [])

    def test_zoom_is_in_the_link(self):
        self.open()
        share = "t.width(t.frame('load_batch')) / t.width(t.frame('main (train.py'))"
        self.assertAlmostEqual(self.js(share), 0.25, places=2)
        self.js("t.click(t.frame('load_batch'))")
        self.assertAlmostEqual(self.js(share), 1, places=2)
        self.assertIsNone(self.js("t.frame('all_reduce') || null"))
        link = self.js("location.hash")
        self.assertRegex(link, r"^#stacks\?zoom=0\.\w+$")
        self.js("history.back()")
        self.js("new Promise(done => setTimeout(done, 100))")
        self.assertAlmostEqual(self.js(share), 0.25, places=2)
        self.open(link)
        self.assertAlmostEqual(self.js(share), 1, places=2)
        self.page.key("Escape")
        self.assertAlmostEqual(self.js(share), 0.25, places=2)
        self.assertEqual(self.js("location.hash"), "")

    def test_keyboard(self):
        self.open()
        self.page.key("/", "/")
        self.assertEqual(self.js("document.activeElement.id"), "query")
        for c in "^load_b":
            self.page.key(c, c)
        self.assertEqual(self.js("t.text('found')"), "1 frame matches, 25 % of the main threads")
        self.page.key("Escape")
        self.js("document.querySelector('#stage .f[tabindex=\"0\"]').focus()")
        where = "document.activeElement.querySelector('title').textContent.split('\\n')[0]"
        self.page.key("ArrowDown")
        self.assertEqual(self.js(where), "__libc_start_main (libc.so.6)")
        self.assertEqual(self.js("document.activeElement.getAttribute('aria-level')"), "2")
        self.page.key("Enter")
        self.assertIn("zoom=", self.js("location.hash"))
        self.assertEqual(self.js(where), "__libc_start_main (libc.so.6)")
        self.assertIn("4 in number", self.js("t.text('info')"))

    def test_filters_and_views(self):
        self.open()
        self.js("t.put('q', '(')")
        self.assertEqual(self.js("t.text('found')"), "not a regular expression")
        self.js("t.put('q', '')")
        self.js("t.put('ranks', '0-7,!2')")
        self.assertIsNone(self.js("t.frame('load_batch') || null"))
        self.assertIn("ranks 0-1,3, 3 in number", self.js("t.frame('main (train').textContent"))
        self.js("t.put('ranks', '0-,')")
        self.assertEqual(self.js("t.text('view-error')"), "ranks: write 0-7,!3")
        self.js("t.put('ranks', '')")
        self.js("t.put('diff', true)")
        self.assertIsNone(self.js("t.frame('epoll_wait') || null"))
        self.assertTrue(self.js("!!t.frame('load_batch')"))
        self.js("t.put('diff', false)")
        self.js("t.put('reverse', true)")
        self.assertTrue(
            self.js(
                "t.labels().indexOf('clock_nanosleep (libc.so.6)') < t.labels().indexOf('load_batch (train.py:31)')"
            )
        )
        self.js("t.put('reverse', false)")
        self.js("t.put('nolib', true)")
        self.assertIsNone(self.js("t.frame('gloo::transport::tcp::UnboundBuffer::waitRecv') || null"))
        self.js("t.put('nolib', false)")
        self.js("t.put('width', 'threads')")
        self.assertIn("4 threads, 100 %", self.js("t.frame('main (train').textContent"))
        self.js("t.put('layer', 'python')")
        self.assertIsNone(self.js("t.frame('_start') || null"))
        self.js("t.put('layer', 'native')")
        self.assertTrue(self.js("!!t.frame('_PyEval_EvalFrameDefault')"))
        self.js("t.put('state', '*d')")
        self.assertIn("giving up the GIL", self.js("t.frame('clock_nanosleep').textContent"))
        self.assertIsNone(self.js("t.frame('epoll_wait') || null"))
        self.js("t.put('flame', true)")
        self.js("t.put('state', 'D')")
        self.assertIn("[no native frames]", self.js("t.labels().join() || '[no native frames]'"))
        self.assertEqual(self.js("location.hash"), "#stacks?layer=native&width=threads&state=D&flame=1")
        self.open("#stacks?layer=python&text=1&colors=frames")
        self.assertIn("load_batch (train.py:31)", self.js("t.text('as-text')"))
        self.assertNotIn("_start", self.js("t.text('as-text')"))
        self.js("document.getElementById('reset').click()")
        self.assertEqual(self.js("location.hash"), "")

    def test_comparisons(self):
        self.open("#stacks?compare=1")
        self.assertIn(
            "dumps/0-request: 0 of 4; dumps/1-hang: 1 of 4 (+25 %)", self.js("t.frame('load_batch').textContent")
        )
        self.assertIn("(−25 %)", self.js("t.frame('all_reduce').textContent"))
        self.open("#stacks?compare=ranks&group=2")
        self.assertIn("ranks 2: 1 of 1; the others: 0 of 3 (−100 %)", self.js("t.frame('load_batch').textContent"))
        self.assertEqual(
            self.js("t.text('legend')"), "more ranks in: the othersmore ranks in: ranks 2the same share in both"
        )

    def test_tables_sort(self):
        self.open()
        self.js(
            "document.querySelector('#ranks thead button').click(); document.querySelector('#ranks thead"
            " button').click()"
        )
        self.assertEqual(
            self.js("Array.from(document.querySelectorAll('#ranks tbody th')).map(th => th.textContent)"),
            ["3", "2", "1", "0"],
        )

    def test_every_size_and_scheme_is_accessible(self):
        axe = axe_source()
        for width, scheme in ((1280, "light"), (1280, "dark"), (320, "light"), (3840, "dark")):
            with self.subTest(width=width, scheme=scheme):
                self.open(width=width, scheme=scheme)
                self.assertEqual(
                    self.js("document.documentElement.scrollWidth - document.documentElement.clientWidth"), 0
                )
                self.js("document.querySelectorAll('details').forEach(d => { d.open = true; })")
                self.assertEqual(self.js(RULES), [])
                if axe:
                    self.js(axe + ";1")
                    self.assertEqual(
                        self.js(
                            "axe.run().then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html.slice(0,"
                            " 200)).join(' ')))"
                        ),
                        [],
                    )
        if not axe:
            print("axe-core is not here: own rules only")

    def test_without_scripts_and_on_paper(self):
        self.page.look(width=1000, media="print")
        self.page.open("about:blank")
        self.page.open(self.url, scripts=False)
        self.assertTrue(self.js("document.getElementById('unscripted').getBoundingClientRect().height > 200"))
        self.assertTrue(self.js("document.getElementById('view').hidden"))
        self.assertEqual(self.js("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
        self.open()
        # Scripts expand everything before printing.
        self.js("window.dispatchEvent(new Event('beforeprint'))")
        self.assertTrue(self.js("Array.from(document.querySelectorAll('details')).every(d => d.open)"))

    def test_svg_file(self):
        self.page.look(width=1300, scheme="dark")
        self.page.open((self.run_dir / "stacks" / "merged.svg").as_uri() + "#q=load_b")
        self.assertEqual(
            self.js("document.querySelector('.found').textContent"), "1 frame matches, 25 % of the main threads"
        )
        self.assertEqual(self.js("getComputedStyle(document.querySelector('.bg')).fill"), "rgb(21, 24, 28)")


if __name__ == "__main__":
    if chromium.PROGRAM is None:
        print("no chromium here")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=1)
