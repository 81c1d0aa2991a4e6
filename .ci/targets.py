#!/usr/bin/env python3
"""Prints ninja targets: targets.py BUILD_DIR product|SUITE...|without SUITE...

product: the targets that no folder of tests defines. SUITE...: the targets that the tests of these suites need.
without SUITE...: those of the product, and what the tests of all other suites need.
"""

import json
import pathlib
import subprocess
import sys


def introspect(build, what):
    done = subprocess.run(["meson", "introspect", f"--{what}", str(build)], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def suites_of(test):
    return {label.split(":")[-1] for label in test["suite"]}


def needed(tests, targets):
    """Absolute paths of the programs and libraries that the tests depend on."""
    files = {target["id"]: target["filename"] for target in targets}
    wanted = {name for test in tests for name in test["depends"]}
    return sorted(path for name in wanted for path in files[name])


def product(targets, tests):
    return sorted(path for target in targets for path in target["filename"]
                  if target["build_by_default"] and tests not in pathlib.Path(target["defined_in"]).parents)


def main():
    build, what = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    targets = introspect(build, "targets")
    of_tests = pathlib.Path(__file__).resolve().parents[1] / "tests"
    if what == "product":
        paths = product(targets, of_tests)
    elif what == "without":
        left_out = set(sys.argv[3:])
        others = [test for test in introspect(build, "tests") if not suites_of(test) & left_out]
        paths = sorted({*product(targets, of_tests), *needed(others, targets)})
    else:
        paths = needed([test for test in introspect(build, "tests") if suites_of(test) & set(sys.argv[2:])], targets)
    if not paths:
        sys.exit(f"targets: none of '{what}' in {build}")
    print("\n".join(str(pathlib.Path(path).relative_to(build)) for path in paths))


if __name__ == "__main__":
    main()
