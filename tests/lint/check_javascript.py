"""Fails if a JavaScript file of the project does not parse, by node --check, which runs no code."""

import sys

import lint_support


def main():
    root = sys.argv[1]
    lint_support.need_tool("node")
    files = lint_support.our_files(root, lambda path: path.suffix == ".js")
    # node checks one file per command line.
    results = [lint_support.run_over(root, ["node", "--check"], [name]) for name in files]
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
