"""Fails if clang-format would change a C++ file of the project."""

import sys

import lint_support


def main():
    root = sys.argv[1]
    lint_support.need_tool("clang-format")
    files = lint_support.our_files(root, lambda path: path.suffix in (".h", ".cpp"))
    return 0 if lint_support.run_over(root, ["clang-format", "--dry-run", "--Werror"], files) else 1


if __name__ == "__main__":
    sys.exit(main())
