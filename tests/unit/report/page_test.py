"""The files of a report are well-formed for any process names, and never access the network.

usage: page_test.py REPORT_TOOL MAKE_RUN.py
"""

import base64
import gzip
import hashlib
import html.parser
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET

try:
    import jsonschema
except ImportError:
    jsonschema = None

TOOL, MAKE_RUN = sys.argv[1:3]
SCHEMA = pathlib.Path(MAKE_RUN).resolve().parent.parent.parent / "docs" / "report.schema.json"
SVG = "{http://www.w3.org/2000/svg}"
VOID = {"meta", "link", "input", "br", "hr", "img"}


class Page(html.parser.HTMLParser):
    """Every tag with its attributes, and a check that tags are closed in order."""

    def __init__(self):
        super().__init__()
        self.tags, self.open, self.errors, self.scripts = [], [], [], 0

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.errors.append(f"</{tag}> at {self.getpos()}")

    def named(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


class ReportFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.dirs = {}
        for name, flags in {"plain": [], "hostile": ["--hostile"]}.items():
            path = cls.dirs[name] = pathlib.Path(cls.temp.name) / name
            subprocess.run([sys.executable, MAKE_RUN, path, *flags], check=True)
            subprocess.run([TOOL, "report", path], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    def page(self, name):
        text = (self.dirs[name] / "report.html").read_text(encoding="utf-8")
        page = Page()
        page.feed(text)
        page.close()
        return text, page

    def test_svg_is_well_formed_and_carries_ranks(self):
        for name in self.dirs:
            for layer in ("merged", "python", "native"):
                with self.subTest(run=name, layer=layer):
                    root = ET.parse(self.dirs[name] / "stacks" / f"{layer}.svg").getroot()
                    frames = [g for g in root.iter(SVG + "g") if g.get("data-ranks") is not None]
                    self.assertGreater(len(frames), 3)
                    for frame in frames:
                        self.assertGreater(int(frame.get("data-n")), 0)
                        self.assertTrue(frame.find(SVG + "title").text)
                    self.assertEqual({s.tag for s in root.iter(SVG + "script")}, {SVG + "script"})
                    self.assertEqual(len(list(root.iter(SVG + "script"))), 1)

    def test_what_a_thread_does_with_the_gil_is_said(self):
        self.assertIn("giving up the GIL", (self.dirs["plain"] / "stacks" / "merged.svg").read_text(encoding="utf-8"))
        self.assertIn("1 giving up the GIL", self.page("plain")[0])

    def test_svg_names_nothing_outside(self):
        for layer in ("merged", "python", "native"):
            text = (self.dirs["hostile"] / "stacks" / f"{layer}.svg").read_text(encoding="utf-8")
            self.assertEqual(set(re.findall(r"[a-z]+://[^\"'\s<]*", text)), {"http://www.w3.org/2000/svg"})

    def test_page_is_balanced_and_has_landmarks(self):
        for name in self.dirs:
            with self.subTest(run=name):
                text, page = self.page(name)
                self.assertEqual(page.errors, [])
                self.assertEqual(page.open, [])
                for tag in ("h1", "main", "header", "nav", "footer"):
                    self.assertEqual(len(page.named(tag)), 1, tag)
                self.assertEqual(page.named("html")[0]["lang"], "en")
                self.assertEqual(len(page.named("table")), len(page.named("caption")))
                self.assertTrue(all("scope" in th for th in page.named("th")))
                ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
                self.assertEqual(len(ids), len(set(ids)))
                # A mailed page has no files beside it.
                for a in page.named("a"):
                    self.assertEqual(a["href"][0], "#")
                    self.assertIn(a["href"][1:].split("?")[0], ids)

    def test_page_makes_no_request(self):
        for name in self.dirs:
            text, page = self.page(name)
            csp = [m["content"] for m in page.named("meta") if m.get("http-equiv") == "Content-Security-Policy"]
            self.assertEqual(len(csp), 1)
            for part in ("default-src 'none'", "base-uri 'none'", "form-action 'none'"):
                self.assertIn(part, csp[0])
            self.assertNotIn("connect-src", csp[0])
            # Only the page's own scripts may run: an escape that is forgotten somewhere runs nothing.
            policy = re.search(r"script-src ([^;]*);", csp[0]).group(1).split()
            hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
                      for script in re.findall(r"<script>(.*?)</script>", text, re.S)]
            self.assertGreater(len(hashes), 5)
            self.assertEqual(policy, [f"'sha256-{digest}'" for digest in hashes])
            self.assertEqual(page.named("img") + page.named("iframe"), [])
            icons = [link["href"].split(",")[0] for link in page.named("link")]
            self.assertEqual(icons, ["data:image/svg+xml"])
            self.assertEqual([s for s in page.named("script") if "src" in s], [])
            outside = re.compile(r"(?!data:image/svg)[a-z]*:|//")
            self.assertEqual([(t, v) for t, attrs in page.tags for k, v in attrs.items()
                              if k in ("href", "src", "action") and v and outside.match(v)], [])
            self.assertNotRegex(text, r"@import|url\((?!#h[1-7]\))")

    def test_hostile_names_stay_text(self):
        _, page = self.page("hostile")
        _, plain = self.page("plain")
        self.assertEqual(len(page.named("script")), len(plain.named("script")))
        events = [k for t, attrs in page.tags for k in attrs if k.startswith("on")]
        self.assertEqual(events, [])

    def test_embedded_data_is_the_report(self):
        for name in self.dirs:
            text, _ = self.page(name)
            block = re.search(r'<script type="[a-z/]*" id="report-data"([^>]*)>(.*?)</script>', text, re.S)
            data = block.group(2)
            if "gzip+base64" in block.group(1):
                data = gzip.decompress(base64.b64decode(data)).decode()
            self.assertEqual(
                json.loads(data), json.loads((self.dirs[name] / "report.json").read_text(encoding="utf-8"))
            )

    @unittest.skipIf(jsonschema is None, "python3-jsonschema is not here")
    def test_report_json_is_of_its_schema(self):
        schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator.check_schema(schema)
        for name, path in self.dirs.items():
            with self.subTest(run=name):
                report = json.loads((path / "report.json").read_text(encoding="utf-8"))
                self.assertEqual([e.message for e in jsonschema.Draft202012Validator(schema).iter_errors(report)], [])
                # These runs are of one node.
                optional = ("nodes", "speed", "pipeline", "gpus")
                self.assertEqual(list(report), [key for key in schema["properties"] if key not in optional])
        # The schema rejects invalid reports.
        report["findings"][0]["severity"] = "dire"
        self.assertFalse(jsonschema.Draft202012Validator(schema).is_valid(report))

    def test_verdict_comes_first_and_scripts_are_not_needed(self):
        text, page = self.page("plain")
        order = [
            text.index(f'id="{s}"')
            for s in ("verdict", "waiting", "next", "findings", "times", "groups", "ranks", "stacks", "dumps",
                      "environment")
        ]
        self.assertEqual(order, sorted(order))
        body = text[:text.index('id="report-data"')]
        self.assertIn("load_batch", body)
        self.assertIn('data-ranks="2"', body)
        self.assertLess(len(text), 1_000_000)

    def test_secrets_stay_masked(self):
        text, _ = self.page("plain")
        self.assertIn("****", text)
        self.assertNotIn("hunter2", text)
        self.assertIn("API_TOKEN", text, "by name only")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
