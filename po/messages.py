"""The texts of the sources that are to be translated, and the files that have them:

  C++         tr("..."), later("..."), cli_text("...")
  options     the texts of launcher/options/option_table* and command_table*.cpp
  tables      columns and titles of the tables of the report page
  templates   {{#t}}...{{/t}}
  JavaScript  t("...")
"""

import pathlib
import re

import po_file

ROOMS = ("commands", "common", "launcher", "report", "stackdump")
STRINGS = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
CALL = re.compile(r"\b(?:tr|later|cli_text)\(\s*" + STRINGS)
OPTION_TEXT = re.compile(r"\.(?:help|group|summary|description)\s*=\s*" + STRINGS)
GROUP = re.compile(r"constexpr std::string_view k\w+ =\s*" + STRINGS + ";")
EXAMPLES = re.compile(r"\.examples = \{((?:\s*\{" + STRINGS + r",\s*" + STRINGS + r"\},?)*)")
EXAMPLE = re.compile(r"\{" + STRINGS + r",\s*" + STRINGS + r"\}")
COLUMN = re.compile(r"\{" + STRINGS + r",\s*(?:true|false),\s*\d\}")
TITLE = re.compile(r"TextTable \w+\{[^;]*?\.title = " + STRINGS)
TEMPLATE = re.compile(r"\{\{#t\}\}(.*?)\{\{/t\}\}", re.S)
SCRIPT = re.compile(r"\bt\(\s*" + STRINGS)


def joined(strings):
    return "".join(po_file.unescape(s) for s in re.findall(r'"((?:[^"\\]|\\.)*)"', strings))


def without_comments(text):
    return "\n".join("" if line.lstrip().startswith("//") else line for line in text.splitlines())


def in_cpp(path, text):
    text = without_comments(text)
    yield from map(joined, CALL.findall(text))
    if any(path.match(p) for p in ("report/operations/*", "report/operations/*/*", "report/pipeline/*/*")):
        yield from map(joined, COLUMN.findall(text))
        yield from map(joined, TITLE.findall(text))
    if path.match("launcher/options/option_table*") or path.match("launcher/options/command_table*.cpp"):
        yield from map(joined, OPTION_TEXT.findall(text))
        yield from map(joined, GROUP.findall(text))
        for block in EXAMPLES.findall(text):
            yield from (joined(what) for _, what in EXAMPLE.findall(block[0]))


def in_file(path, text):
    if path.suffix in (".cpp", ".h"):
        return in_cpp(path, text)
    if path.suffix == ".mustache":
        return TEMPLATE.findall(text)
    return map(joined, SCRIPT.findall(without_comments(text))) if path.suffix == ".js" else ()


def of_sources(root):
    """{text: [files that have it]}, in the order of the files."""
    out = {}
    root = pathlib.Path(root)
    paths = [p for room in ROOMS for p in sorted((root / room).rglob("*"))]
    for path in paths + sorted((root / "templates").glob("*")):
        if path.suffix in (".cpp", ".h", ".mustache", ".js"):
            name = path.relative_to(root)
            for text in in_file(name, path.read_text(encoding="utf-8")):
                files = out.setdefault(text, [])
                if text and str(name) not in files:
                    files.append(str(name))
    out.pop("", None)
    return out
