"""Fails if a JavaScript file of ours does not parse: node's own check, which runs nothing."""

import sys

import lint_support


def main():
    root = sys.argv[1]
    lint_support.need_tool("node")
    files = lint_support.our_files(root, lambda path: path.suffix == ".js")
    # node looks at one file a command line.
    results = [lint_support.run_over(root, ["node", "--check"], [name]) for name in files]
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
