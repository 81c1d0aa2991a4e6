#!/usr/bin/env python3
"""Prints ninja targets: targets.py BUILD_DIR product|SUITE.

product: the targets that no folder of tests defines. SUITE: the targets that the tests of the suite need.
"""

import json
import pathlib
import subprocess
import sys


def introspect(build, what):
    done = subprocess.run(["meson", "introspect", f"--{what}", str(build)], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def needed(tests, targets, suite):
    """Absolute paths of the programs and libraries that the tests of the suite depend on."""
    files = {target["id"]: target["filename"] for target in targets}
    wanted = {name for test in tests if suite in [label.split(":")[-1] for label in test["suite"]]
              for name in test["depends"]}
    return sorted(path for name in wanted for path in files[name])


def product(targets, tests):
    return sorted(path for target in targets for path in target["filename"]
                  if target["build_by_default"] and tests not in pathlib.Path(target["defined_in"]).parents)


def main():
    build, what = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    targets = introspect(build, "targets")
    if what == "product":
        paths = product(targets, pathlib.Path(__file__).resolve().parents[1] / "tests")
    else:
        paths = needed(introspect(build, "tests"), targets, what)
    if not paths:
        sys.exit(f"targets: none of '{what}' in {build}")
    print("\n".join(str(pathlib.Path(path).relative_to(build)) for path in paths))


if __name__ == "__main__":
    main()
