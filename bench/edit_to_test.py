#!/usr/bin/env python3
"""Seconds from one edited source file to the result of its unit tests, in the sanitizer build:

  bench/edit_to_test.py build-asan

For each room a source of its core is changed (a comment with the time is added, so that no compiler cache has the
object), its test program is built and run, and the file is restored. The build must be up to date."""

import argparse
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
# source, ninja target, Meson test
EDITS = [
    ("common/base/strings.cpp", "tests/unit/common/unit_common", "unit_common"),
    ("stackdump/cpython/thread_names.cpp", "tests/unit/stackdump/unit_stackdump", "unit_stackdump"),
    ("report/diagnosis/rules/rules_crash.cpp", "tests/unit/diagnosis/unit_diagnosis", "unit_diagnosis"),
    ("report/speed/judge.cpp", "tests/unit/report/speed/unit_speed", "unit_speed"),
    ("report/render/opening.cpp", "tests/unit/report/unit_report", "unit_report"),
    ("launcher/supervise/verdict_handler.cpp", "tests/unit/launcher/unit_launcher", "unit_launcher"),
    ("launcher/nodes/agent/protocol/membership.cpp", "tests/unit/nodes/unit_nodes", "unit_nodes"),
]


def run(*words):
    begin = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    build = str(parser.parse_args().build.resolve())
    print(f"{'source':46} {'build s':>8} {'test s':>7} {'sum s':>6}")
    for source, target, test in EDITS:
        path = ROOT / source
        text = path.read_text()
        try:
            run("ninja", "-C", build, target)
            path.write_text(text + f"// {time.time()}\n")
            built = run("ninja", "-C", build, target)
            tested = run("meson", "test", "-C", build, "--no-rebuild", test)
        finally:
            path.write_text(text)
        print(f"{source:46} {built:8.1f} {tested:7.1f} {built + tested:6.1f}", flush=True)


if __name__ == "__main__":
    main()
