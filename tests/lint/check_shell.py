"""Fails if shellcheck warns about a shell script of the project."""

import pathlib
import re
import sys

import lint_support

SHEBANG = re.compile(rb"^#!\s*\S*/(env\s+)?(sh|bash|dash)\b")


def main():
    root = sys.argv[1]
    lint_support.need_tool("shellcheck")

    def is_script(path):
        if path.suffix in (".sh", ".bash"):
            return True
        return path.suffix == "" and SHEBANG.match((pathlib.Path(root) / path).read_bytes()[:80]) is not None

    files = lint_support.our_files(root, is_script)
    return 0 if lint_support.run_over(root, ["shellcheck", "--external-sources"], files) else 1


if __name__ == "__main__":
    sys.exit(main())
