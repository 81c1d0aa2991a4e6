"""Checks docs/from-other-tools.md: every row names a test that exists, or says that there is no equal.

Usage: check_from_other_tools.py SOURCE_ROOT
"""

import pathlib
import re
import sys

REFERENCE = re.compile(r"`([a-z][\w./-]*)`(?:: (.+))?$")
# Where a file has the names of its tests; other files have data.
NAMES = {".cpp": re.compile(r'(?:TEST|SUB)_?CASE\(\s*"(.*)"'), ".py": re.compile(r"def (test\w*)\(")}


def names_in(file):
    """The names of the tests of the file, one on a line; of other files, the text."""
    text = file.read_text()
    pattern = NAMES.get(file.suffix)
    return text if pattern is None else "\n".join(pattern.findall(text))


def problems(root):
    text = (root / "docs" / "from-other-tools.md").read_text()
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 3 or cells[2] == "test" or set(cells[0]) <= {"-"}:
            continue
        found = REFERENCE.match(cells[2])
        if cells[2] == "" and "**no**" in cells[1]:
            continue
        if found is None:
            yield f"line {number}: no test is named: {cells[0]}"
            continue
        path, words = found.groups()
        file = root / "tests" / path
        if not file.exists():
            yield f"line {number}: there is no tests/{path}"
        elif words is not None and words not in names_in(file):
            yield f"line {number}: tests/{path} does not have: {words}"


def main():
    found = list(problems(pathlib.Path(sys.argv[1])))
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
