"""Golden texts for tests in Python, by the rules of golden.h.

expect(case, "hang/verdict.json", text) compares with tests/golden/hang/verdict.json. With XPURUN_TEST_ACCEPT=1 the
file is written instead, and main() reports the program as skipped: nothing was compared.
"""

import html.parser
import json
import os
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(os.environ.get("XPURUN_TEST_SOURCE") or pathlib.Path(__file__).resolve().parents[2])
SKIPPED = 77
ACCEPTS = os.environ.get("XPURUN_TEST_ACCEPT") == "1"
accepted = []


def expect(case, name, text, message=""):
    path = SOURCE / "tests/golden" / name
    if ACCEPTS:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        accepted.append(name)
        return
    case.maxDiff = None
    case.assertEqual(path.read_text(), text, f"{name} {message}")


def exit_status(result):
    """Of a program whose tests had this result."""
    if not result.wasSuccessful():
        return 1
    if accepted:
        print(f"{len(accepted)} golden texts written, none compared", file=sys.stderr)
        return SKIPPED
    return 0


def main():
    sys.exit(exit_status(unittest.main(exit=False).result))


def json_text(value, most=None):
    """JSON with one value a line and short floats; of longer lists only the first `most` elements."""
    def shorter(v):
        if isinstance(v, float):
            return float(f"{v:.4g}")
        if isinstance(v, dict):
            return {name: shorter(member) for name, member in v.items()}
        if isinstance(v, list):
            cut = v if most is None or len(v) <= most else v[:most] + [f"... {len(v) - most} more"]
            return [shorter(element) for element in cut]
        return v

    return json.dumps(shorter(value), indent=1, ensure_ascii=False) + "\n"


class Outline(html.parser.HTMLParser):
    """What a page says, one line per heading, paragraph, list entry and table row."""

    MARKS = {"h1": "# ", "h2": "## ", "h3": "### ", "h4": "#### ", "li": "- ", "tr": "| ", "summary": "> ", "p": "",
             "caption": "", "figcaption": "", "label": "", "dt": "", "dd": "  ", "pre": "    ",
             "button": "[button] ", "option": "[option] ", "title": "title: "}
    CELLS = ("td", "th")
    SILENT = ("script", "style", "svg")

    def __init__(self, text):
        super().__init__()
        self.lines, self.open, self.silent, self.text, self.mark = [], [], 0, "", ""
        self.feed(text)
        self.end_line()

    def end_line(self):
        # The lines of preformatted text stay apart.
        for line in self.text.splitlines() if self.mark == self.MARKS["pre"] else [self.text]:
            words = " ".join(line.split())
            if words.strip("| "):
                self.lines.append(self.mark + words)
        self.text, self.mark = "", ""

    def handle_starttag(self, tag, attrs):
        if tag in self.SILENT:
            self.silent += 1
        elif not self.silent and tag in self.MARKS:
            self.end_line()
            self.mark = self.MARKS[tag]
        elif tag in self.CELLS and self.text.strip():
            self.text += " | "
        elif tag in ("span", "option"):
            self.text += " "

    def handle_endtag(self, tag):
        if tag in self.SILENT:
            self.silent -= 1
        elif not self.silent and tag in self.MARKS:
            self.end_line()

    def handle_data(self, data):
        if not self.silent:
            self.text += data


def outline(page):
    return "\n".join(Outline(page).lines) + "\n"


def boxes(picture):
    """A flame graph without the style and the script that all of them share."""
    return re.sub(r"<(style|script)\b.*?</\1>\n?", "", picture, flags=re.DOTALL)
