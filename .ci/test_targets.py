#!/usr/bin/env python3
"""Prints the ninja targets that the tests of a suite need: test_targets.py BUILD_DIR SUITE."""

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


def main():
    build, suite = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    paths = needed(introspect(build, "tests"), introspect(build, "targets"), suite)
    if not paths:
        sys.exit(f"test_targets: no target of suite '{suite}' in {build}")
    print("\n".join(str(pathlib.Path(path).relative_to(build)) for path in paths))


if __name__ == "__main__":
    main()
