"""Fails if pyflakes warns about a Python file of xpurun, or if a file has a line of more than 120 columns."""

import pathlib
import sys

import lint_support

LONGEST = 120


def is_python(path):
    if path.suffix:
        return path.suffix == ".py"
    with open(path, "rb") as file:
        line = file.readline(100)
    return line.startswith(b"#!") and b"python" in line


def long_lines(root, name):
    for number, line in enumerate((root / name).read_text().splitlines(), 1):
        if len(line) > LONGEST:
            yield f"{name}:{number}: {len(line)} columns, at most {LONGEST}"


def main():
    root = pathlib.Path(sys.argv[1])
    lint_support.need_tool("pyflakes3")
    # Test data may be unusual.
    files = lint_support.our_files(root, lambda path: path.parts[:2] != ("tests", "data") and is_python(root / path))
    too_long = [line for name in files for line in long_lines(root, name)]
    print("\n".join(too_long))
    return 0 if lint_support.run_over(root, ["pyflakes3"], files) and not too_long else 1


if __name__ == "__main__":
    sys.exit(main())
