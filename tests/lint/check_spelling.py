"""Fails if codespell finds a misspelling in the project's text."""

import sys

import lint_support

TEXT = {".h", ".cpp", ".py", ".md", ".sh", ".1", ".5", ".7", ".js", ".css", ".mustache", ".txt", ".build", ".map", ""}
# Words of the field that codespell reports by mistake.
KNOWN = "ans,crate,inout,nd,parm,ro,te,ue"


def main():
    root = sys.argv[1]
    lint_support.need_tool("codespell")
    files = lint_support.our_files(root, lambda path: path.suffix in TEXT and path.parts[:2] != ("tests", "data"))
    return 0 if lint_support.run_over(root, ["codespell", "--ignore-words-list", KNOWN], files) else 1


if __name__ == "__main__":
    sys.exit(main())
