"""Fails if a source file has grown beyond the limit of lines."""

import pathlib
import sys

import lint_support

MOST_LINES = 600
SOURCE = {".h", ".cpp", ".py", ".sh", ".js", ".css", ".mustache", ".build", ""}
NOT_OURS = {"LICENSE"}


def main():
    root = sys.argv[1]
    files = lint_support.our_files(root, lambda path: path.suffix in SOURCE and path.name not in NOT_OURS)
    too_long = []
    for name in files:
        lines = (pathlib.Path(root) / name).read_bytes().count(b"\n")
        if lines > MOST_LINES:
            too_long.append(f"{name}: {lines} lines, the most is {MOST_LINES}; split it by its nouns")
    print("\n".join(too_long) or f"{len(files)} files, none over {MOST_LINES} lines")
    return 1 if too_long or not files else 0


if __name__ == "__main__":
    sys.exit(main())
