"""Fails if clang-tidy warns about a source file of ours that the build directory knows how to compile."""

import json
import os
import pathlib
import subprocess
import sys

import lint_support


def main():
    root, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    lint_support.need_tool("run-clang-tidy")
    commands = json.loads((build / "compile_commands.json").read_text())
    files = set()
    for entry in commands:
        path = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        # Generated code is not ours to polish; the tests are compiled with warnings, which is enough for them.
        if root in path.parents and build not in path.parents and (root / "tests") not in path.parents:
            files.add(str(path))
    if not files:
        print("no file to check")
        return 1
    jobs = str(len(os.sched_getaffinity(0)))
    # Without anchors the names are regular expressions that match anywhere.
    done = subprocess.run(["run-clang-tidy", "-quiet", "-j", jobs, "-p", str(build),
                           *(f"^{name}$" for name in sorted(files))],
                          cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    lines = [line for line in done.stdout.splitlines()
             if not line.startswith("clang-tidy") and "warnings generated" not in line]
    print("\n".join(lines))
    print(f"{len(files)} files checked")
    return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
