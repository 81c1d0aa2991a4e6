"""What the page's scripts do, in headless Chromium; skipped (77) where there is none.

A script is appended to the page, plays the reader and leaves its findings in the document.

usage: browser_test.py REPORT_TOOL MAKE_RUN.py
"""

import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL, MAKE_RUN = sys.argv[1:3]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")

READER = """
<script>
(function () {
  var out = {}, svg = document.querySelector("svg.fg[data-layer=merged]");
  function frame(text) {
    return Array.from(svg.querySelectorAll(".f")).find(function (g) { return g.textContent.startsWith(text); });
  }
  function width(g) { return +g.querySelector("rect").getAttribute("width"); }
  function key(target, name) { target.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true })); }
  var guilty = frame("load_batch"), whole = width(frame("main (train.py"));
  out.share = width(guilty) / whole;
  guilty.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  out.zoomed = width(guilty) / whole;
  out.hidden = frame("all_reduce").classList.contains("gone");
  out.hash = location.hash;
  key(document.body, "Escape");
  out.back = width(guilty) / whole;
  var first = svg.querySelector('.f[tabindex="0"]');
  first.focus();
  key(first, "ArrowDown");
  out.second = document.activeElement.textContent.split("\\n")[0];
  key(document.activeElement, "ArrowUp");
  out.first = document.activeElement === first;
  out.level = guilty.getAttribute("aria-level");
  var query = document.getElementById("query");
  query.value = "^load_b";
  query.dispatchEvent(new Event("input"));
  out.found = document.getElementById("found").textContent;
  query.value = "(";
  query.dispatchEvent(new Event("input"));
  out.bad = document.getElementById("found").textContent;
  document.getElementById("colors").click();
  out.colors = svg.getAttribute("data-colors");
  var head = document.querySelector("#ranks thead button");
  head.click(); head.click();
  out.order = Array.from(document.querySelectorAll("#ranks tbody th")).map(function (th) { return th.textContent; });
  out.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  document.documentElement.setAttribute("data-out", JSON.stringify(out));
})();
</script>
"""


class Browser(unittest.TestCase):
    def test_reader(self):
        with tempfile.TemporaryDirectory() as temp:
            run = pathlib.Path(temp) / "run"
            subprocess.run([sys.executable, MAKE_RUN, run], check=True)
            subprocess.run([TOOL, "report", run], check=True)
            page = (run / "report.html").read_text(encoding="utf-8")
            (run / "played.html").write_text(page.replace("</body>", READER + "</body>"), encoding="utf-8")
            dom = subprocess.run(
                [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={temp}/profile",
                 "--window-size=900,900", "--dump-dom", (run / "played.html").as_uri()],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=True).stdout.decode()
        found = re.search(r'data-out="([^"]*)"', dom)
        self.assertIsNotNone(found, "the reader's script did not finish")
        out = json.loads(html.unescape(found.group(1)))
        self.assertAlmostEqual(out["share"], 0.25, places=2)
        self.assertAlmostEqual(out["zoomed"], 1, places=2)
        self.assertAlmostEqual(out["back"], 0.25, places=2)
        self.assertTrue(out["hidden"])
        self.assertRegex(out["hash"], r"^#fg=merged&z=0\.\d+$")
        self.assertEqual(out["second"], "__libc_start_main (libc.so.6)")
        self.assertTrue(out["first"])
        self.assertEqual(out["level"], "7")
        self.assertEqual(out["found"], "1 frame matches, 25 % of the main threads")
        self.assertEqual(out["bad"], "not a regular expression")
        self.assertEqual(out["colors"], "layers")
        self.assertEqual(out["order"], ["3", "2", "1", "0"])
        self.assertEqual(out["overflow"], 0)


if __name__ == "__main__":
    if BROWSER is None:
        print("no chromium here")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=1)
