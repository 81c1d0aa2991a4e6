"""Fails if a document, a manual page or a translated text uses a word of the column "not" of docs/GLOSSARY.md. Words in
italics there have another meaning elsewhere and are not refused. Code in documents is not checked.

Usage: check_words.py SOURCE_ROOT
"""

import pathlib
import re
import sys

import lint_support

QUALIFIED = re.compile(r"\(.*\)")  # "agent (in prose)"


def refused_words(glossary):
    """{refused word: the word to use instead} of the tables of three columns."""
    words = {}
    for line in glossary.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 3 or cells[0] in ("word", "---"):
            continue
        for word in filter(None, (w.strip() for w in cells[2].split(","))):
            if not word.startswith("*") and not QUALIFIED.search(word):
                words[word] = cells[0]
    return words


def prose_of_markdown(text):
    """The text with the code blanked, line for line."""
    text = re.sub(r"^```.*?^```", lambda m: "\n" * m[0].count("\n"), text, flags=re.M | re.S)
    text = re.sub(r"`[^`]*`", lambda m: "\n" * m[0].count("\n"), text)
    return re.sub(r"\]\([^)\s]*\)", "]", text)


def prose_of_manual(text):
    """Without the lines that are macros: names, options, paths."""
    return "\n".join("" if line.startswith(".") else line for line in text.split("\n"))


def problems(name, prose, words):
    if not words:
        yield f"{name}: the glossary refuses no word"
        return
    # Line breaks count as blanks.
    wanted = "|".join(re.escape(w).replace(r"\ ", r"\s+") for w in sorted(words, key=len, reverse=True))
    for match in re.finditer(rf"(?<![\w-])({wanted})(?![\w-])", prose, re.I):
        word = " ".join(match[1].lower().split())
        line = prose.count("\n", 0, match.start()) + 1
        yield f'{name}:{line}: "{word}" instead of "{words[word]}" (docs/GLOSSARY.md)'


def is_document(path):
    return ((path.suffix == ".md" and path.parts[0] in ("docs", "examples") and path.name != "GLOSSARY.md")
            or str(path) in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md"))


def check(root):
    sys.path.insert(0, str(root / "po"))
    import po_file

    words = refused_words((root / "docs/GLOSSARY.md").read_text(encoding="utf-8"))
    for name in lint_support.our_files(root, is_document):
        yield from problems(name, prose_of_markdown((root / name).read_text(encoding="utf-8")), words)
    for path in sorted((root / "man").glob("*.[1-9]")):
        yield from problems(f"man/{path.name}", prose_of_manual(path.read_text(encoding="utf-8")), words)
    path = root / "po/zh_CN.po"
    for entry in po_file.parse(path.read_text(encoding="utf-8"), path.name):
        for problem in problems(path.name, entry.msgid, words):
            yield re.sub(r":\d+:", f":{entry.line}:", problem, count=1)


def main():
    found = list(check(pathlib.Path(sys.argv[1]).resolve()))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
