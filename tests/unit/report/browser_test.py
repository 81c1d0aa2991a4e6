"""The page in headless Chromium: its scripts by mouse and keyboard, in all sizes and schemes. Skipped (77)
without Chromium. A few rules of accessibility are checked here, in all sizes; accessibility_test.py has axe-core's.

usage: browser_test.py REPORT_TOOL MAKE_RUN.py
"""

import re
import sys

import page_tests

# The names of controls and of parts of the page.
NAMES = """
Array.from(document.querySelectorAll("button, summary, label, legend, th[scope=col], h2, option, [aria-label], input"))
  .filter(el => !el.closest("svg, .card, #dumps, #functions tbody, select[name=thread], select[name=process]"))
  .map(el => el.getAttribute("aria-label") || el.getAttribute("placeholder") || el.textContent.trim())
"""
# Names that stay: of programs, of units, of roles in the data.
SAME_NAMES = {"Python", "PID", "CPU", "Rank", "MiB", "TFLOP/s", "GB/s"}
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


class InChromium(page_tests.PageTests):
    tool, make_run = sys.argv[1:3]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.url = cls.make("run", "--earlier", "--hostile")
        cls.run_dir = cls.folder / "run"

    def open(self, view="", url=None, **look):
        super().open((url or self.url) + view, **look)

    def test_every_control_of_a_chinese_page_has_a_chinese_name(self):
        flags = ("--source", "--earlier", "--calls", "3")
        pages = {}
        for language in ("en", "zh"):
            self.open(url=self.make(f"named-{language}", *flags, language=language))
            self.js("document.querySelectorAll('details').forEach(d => { d.open = true; })")
            self.assertEqual(self.js(RULES), [])
            self.assertEqual(self.js("document.documentElement.lang"), {"en": "en", "zh": "zh-CN"}[language])
            pages[language] = self.js(NAMES)
        self.assertEqual(len(pages["en"]), len(pages["zh"]))
        self.assertGreater(len(pages["en"]), 80)
        same = {a for a, b in zip(pages["en"], pages["zh"]) if a == b}
        same = {name for name in same if re.search("[A-Za-z]{2,}", name) and not re.fullmatch(r"rank \d+", name)}
        self.assertEqual(same - SAME_NAMES, set())
        # What scripts say.
        self.js("t.put('q', 'train')")
        self.assertRegex(self.text("#found"), r"个栈帧匹配，占主线程的 \d+ %")
        self.js("t.put('q', '(')")
        self.assertEqual(self.text("#found"), "不是正则表达式")
        self.assertRegex(self.js("t.text('legend')"), "罪魁祸首")

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
        self.open("#stacks?code=all")
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
        self.assertIn("ranks 0-3 (4 ranks)", self.js("t.text('info')"))

    def test_the_line_about_a_frame_is_in_sight(self):
        self.open("#stacks?code=all&others=1", height=500)
        for _ in range(12):
            self.js("document.querySelector('#stage .f[tabindex=\"0\"]').focus()")
            self.page.key("ArrowDown")
        box = self.js("(r => [r.top, r.bottom])(document.getElementById('info').getBoundingClientRect())")
        self.assertGreaterEqual(box[0], 0)
        self.assertLessEqual(box[1], 500)
        self.assertIn(self.js("document.activeElement.xpurunNode.label"), self.js("t.text('info')"))

    def test_callers_and_callees_by_keyboard(self):
        self.open()
        self.js("t.frame('main (train.py:52)').focus()")
        self.page.key("s", "s")
        self.assertEqual(self.js("location.hash"), "#stacks?fn=main+%28train.py%3A52%29")
        self.assertEqual(
            self.js("Array.from(document.querySelectorAll('#stage .ph')).map(p => p.textContent)"),
            ["What main (train.py:52) calls", "Callers of main (train.py:52), nearest first"],
        )
        self.assertEqual(self.js("document.activeElement.id"), "sandwich-close")
        self.page.key("Enter")
        self.assertEqual(self.js("location.hash"), "")

    def test_own_code_comes_first_and_the_launcher_is_folded(self):
        self.open()
        own = self.js("t.labels()")
        self.assertEqual([w for w in own if w.startswith(("_start", "__libc_start_main", "Py_BytesMain", "clone"))], [])
        self.assertTrue(any(w.startswith("all_reduce") for w in own))  # what own code waits in
        self.assertFalse(any(w.startswith("_invoke_run") for w in own))
        self.js("document.querySelector('#stage .fold').focus()")
        self.page.key("Enter")
        self.assertEqual(self.js("document.activeElement.getAttribute('aria-expanded')"), "true")
        self.assertTrue(any(w.startswith("_invoke_run") for w in self.js("t.labels()")))
        self.assertEqual(self.js("location.hash"), "#stacks?others=1")
        self.open("#stacks?nointerp=1")  # a link of an earlier version
        self.assertTrue(self.js("document.getElementById('code-calls').checked"))

    def test_table_of_functions(self):
        self.open()
        self.js("document.querySelector('#functions summary').focus()")
        self.page.key("Enter")
        self.js("new Promise(done => setTimeout(done, 50))")
        row = (
            "Array.from(document.querySelectorAll('#functions-body tr'))"
            ".map(tr => Array.from(tr.cells).map(c => c.innerText))"
        )
        rows = {r[0]: r[1:] for r in self.js(row)}
        self.assertEqual(rows["load_batch (train.py:31)"][:4], ["0", "0", "1", "1"])
        self.assertEqual(rows["main (train.py:52)"], ["0", "0", "4", "4", "ranks 0-3"])
        self.js("document.querySelectorAll('#functions-head button')[3].click()")
        totals = [int(r[3]) for r in self.js(row)]
        self.assertEqual(totals, sorted(totals, reverse=True))
        self.js("t.put('q', 'load_b')")
        self.assertEqual([r[0] for r in self.js(row)], ["load_batch (train.py:31)"])
        self.js("document.querySelector('#functions-body button').click()")
        self.assertIn("fn=load_batch", self.js("location.hash"))

    def test_values_that_the_page_does_not_know_are_named(self):
        self.open("#stacks?compare=7&layer=foo&nonsense=1&fn=nobody")
        said = self.js("t.text('view-error')")
        for part in ("compare=7: this page has no such dump; there are ranks and 1-1",
                     "layer=foo: there are merged, python, native", "nonsense: no such setting",
                     "fn=nobody: no such function here"):
            self.assertIn(part, said)
        self.js("t.put('diff', true)")
        self.assertEqual(self.js("t.text('view-error')"), "")

    def test_copies(self):
        self.open("#stacks?diff=1")
        self.js("document.getElementById('copy').click()")
        self.assertEqual(self.js("window.copied"), "#stacks?diff=1")  # the path of a file means nothing to others
        self.js("document.querySelector('[data-copy=next-command]').click()")
        self.assertRegex(self.js("window.copied"), r"^xpurun stacks --format text .*rank-2\.stacks\.json$")
        picture = self.js("xpurun.pictureFile()")
        self.assertTrue(picture.startswith("<svg") and "load_batch" in picture and "h1" in picture)
        self.assertIn("load_batch (train.py:31)", self.js("xpurun.viewText()"))

    def test_only_the_culprit_is_loud(self):
        # Dataloader workers are of ranks 0-3, of which rank 2 is the culprit.
        self.open(url=self.make("sixteen", "--ranks", "16"))
        looks = "Object.fromEntries(t.labels().map(l => [l, t.frame(l).getAttribute('class').split(' ')[1]]))"
        got = self.js(looks)
        self.assertEqual(got["load_batch (train.py:31)"], "s1")
        self.assertEqual(got["get (queues.py:113)"], "sq")
        self.assertEqual({look for look in got.values() if re.fullmatch("s[0-9x]", look)}, {"s1"})
        static = (self.folder / "sixteen/stacks/merged.svg").read_text()
        self.assertRegex(static, r'class="[^"]*\bs1\b')
        self.assertRegex(static, r'class="[^"]*\bsq\b')
        self.assertNotRegex(static, r'class="f [^"]*\bs[2-7x]\b')

    def test_very_many_ranks(self):
        url = self.make("many", "--ranks", "4096", "--threads", "2", "--culprit", "1234")
        self.assertLess((self.folder / "many/report.html").stat().st_size, 8 << 20)
        self.open(url=url)
        self.js("xpurun.ranksReady.then(() => 1)")
        self.assertEqual(self.text("#rank-count"), "4096 of 4096 ranks")
        rows = "document.querySelectorAll('#ranks tbody tr').length"
        self.assertLess(self.js(rows), 100)
        self.assertIn("1234", self.js("document.querySelector('#ranks tbody tr').innerText"))
        self.js("document.querySelector('#ranks .scroll').scrollTop = 1e9; new Promise(done => setTimeout(done, 100))")
        self.assertIn("4095", self.js("Array.from(document.querySelectorAll('#ranks tbody tr')).pop().innerText"))
        self.assertLess(self.js(rows), 100)
        self.js("document.getElementById('rank-filter').focus()")
        for c in "7-9":
            self.page.key(c, c)
        self.assertEqual(self.text("#rank-count"), "3 of 4096 ranks")
        self.js(
            "(el => { el.value += ',!8'; el.dispatchEvent(new Event('input')); })"
            "(document.getElementById('rank-filter'))"
        )
        shown = "Array.from(document.querySelectorAll('#ranks tbody th')).map(th => th.innerText)"
        self.assertEqual(self.js(shown), ["7", "9"])
        self.assertEqual(self.js("document.querySelectorAll('.strip i').length"), 3)
        self.assertGreaterEqual(self.js("document.querySelector('.strip .culprit').getBoundingClientRect().width"), 4)
        self.assertIn("4095", self.js("document.querySelector('.strip').getAttribute('aria-label')"))
        # Groups come before single ranks.
        tops = self.js("['groups', 'ranks'].map(id => document.getElementById(id).offsetTop)")
        self.assertLess(tops[0], tops[1])

    def test_marks_of_the_search_are_seen_on_every_colour(self):
        for scheme in ("light", "dark"):
            self.open("#stacks?q=.&code=all&others=1", scheme=scheme)
            # Of two outlines, light and dark, one has a contrast of 3:1 to any colour.
            self.assertEqual(
                self.js("['halo', 'mark'].map(c => getComputedStyle(document.querySelector('.hit .' + c)).stroke)"),
                ["rgb(255, 255, 255)", "rgb(20, 23, 26)"],
            )
            self.open("#stacks?q=load_b&code=all", scheme=scheme)
            self.assertEqual(self.js("getComputedStyle(t.frame('main (train')).opacity"), "1")

    def test_four_ranks_print_on_four_pages(self):
        path = self.folder / "page.pdf"
        for name, flags in {"run": [], "with-source": ["--source", "--earlier"],
                            "exception": ["--kind", "exception", "--source"]}.items():
            with self.subTest(page=name):
                self.open(url=self.make(name, *flags))
                self.page.pdf(path)
                pages = len(re.findall(rb"/Type\s*/Page\b[^s]", path.read_bytes()))
                self.assertTrue(1 <= pages <= 4, pages)

    def test_filters_and_views(self):
        self.open("#stacks?code=all")
        self.js("t.put('q', '(')")
        self.assertEqual(self.js("t.text('found')"), "not a regular expression")
        self.js("t.put('q', '')")
        self.js("t.put('ranks', '0-7,!2')")
        self.assertIsNone(self.js("t.frame('load_batch') || null"))
        self.assertIn("ranks 0-1,3 (3 ranks)", self.js("t.frame('main (train').textContent"))
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
        self.js("t.put('code', 'own')")
        self.assertIsNone(self.js("t.frame('gloo::transport::tcp::UnboundBuffer::waitRecv') || null"))
        self.js("t.put('code', 'all')")
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
        self.assertEqual(self.js("location.hash"), "#stacks?layer=native&code=all&width=threads&state=D&flame=1")
        self.open("#stacks?layer=python&text=1&colors=frames")
        self.assertIn("load_batch (train.py:31)", self.js("t.text('as-text')"))
        self.assertNotIn("_start", self.js("t.text('as-text')"))
        self.js("document.getElementById('reset').click()")
        self.assertEqual(self.js("location.hash"), "")

    def test_comparisons(self):
        self.open("#stacks?compare=1")
        self.assertIn(
            "dumps/1-hang: 1 of 4; dumps/0-request: 0 of 4 (+25 %)", self.js("t.frame('load_batch').textContent")
        )
        self.assertIn("(−25 %)", self.js("t.frame('all_reduce').textContent"))
        self.open("#stacks?compare=ranks&group=2")
        self.assertIn("rank 2: 1 of 1; the others: 0 of 3 (+100 %)", self.js("t.frame('load_batch').textContent"))
        self.assertEqual(self.js("t.text('legend')"), "more in rank 2more in the othersthe same share in both")
        self.assertRegex(self.js("t.frame('load_batch').getAttribute('class')"), r"\bup3\b")
        self.assertIsNone(self.js("t.frame('agent') || null"))  # a process without a rank is in no group

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
        for width, scheme in ((1280, "light"), (1280, "dark"), (320, "light"), (3840, "dark")):
            with self.subTest(width=width, scheme=scheme):
                self.open(width=width, scheme=scheme)
                self.assertEqual(
                    self.js("document.documentElement.scrollWidth - document.documentElement.clientWidth"), 0
                )
                self.js("document.querySelectorAll('details').forEach(d => { d.open = true; })")
                self.assertEqual(self.js(RULES), [])

    def test_without_scripts_and_on_paper(self):
        self.page.look(width=1000, media="print")
        self.page.open("about:blank")
        self.page.open(self.url, scripts=False)
        self.assertTrue(self.js("document.getElementById('unscripted').getBoundingClientRect().height > 200"))
        self.assertTrue(self.js("document.getElementById('view').hidden"))
        self.assertEqual(self.js("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")

    def test_svg_file(self):
        self.page.look(width=1300, scheme="dark")
        self.page.open((self.run_dir / "stacks" / "merged.svg").as_uri() + "#q=load_b")
        self.assertEqual(
            self.js("document.querySelector('.found').textContent"), "1 frame matches, 25 % of the main threads"
        )
        self.assertEqual(self.js("getComputedStyle(document.querySelector('.bg')).fill"), "rgb(21, 24, 28)")


if __name__ == "__main__":
    page_tests.main()
