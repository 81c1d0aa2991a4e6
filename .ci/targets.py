#!/usr/bin/env python3
"""Prints ninja targets: targets.py BUILD_DIR product|SUITE...|without SUITE...

product: the targets that no folder of tests defines. SUITE...: the targets that the tests of these suites need.
without SUITE...: all targets but those that only the tests of these suites need.
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
        tests = introspect(build, "tests")
        others = [test for test in tests if not suites_of(test) & left_out]
        only_left_out = (set(needed([test for test in tests if suites_of(test) & left_out], targets))
                         - {*product(targets, of_tests), *needed(others, targets)})
        # Tests find fakes and probes by their paths, so whatever nobody depends on is built.
        paths = sorted({path for target in targets if target["build_by_default"] for path in target["filename"]}
                       - only_left_out)
    else:
        paths = needed([test for test in introspect(build, "tests") if suites_of(test) & set(sys.argv[2:])], targets)
    if not paths:
        sys.exit(f"targets: none of '{what}' in {build}")
    print("\n".join(str(pathlib.Path(path).relative_to(build)) for path in paths))


if __name__ == "__main__":
    main()
