#!/usr/bin/env python3
"""Adds up the test cases of Meson build directories into the line 'N passed, N failed, N skipped'.

A Meson test is one program. Its cases are counted if the program reports their number (doctest,
unittest); otherwise the program counts as one case. Exits 1 if a case failed or nothing was counted.
"""

import collections
import json
import pathlib
import re
import sys

DOCTEST = re.compile(r"^\[doctest\] test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed \|\s*(\d+) skipped", re.M)
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n\n(OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$", re.M)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
UNITTEST_FAILED = ("failures", "errors", "unexpected successes")

Counts = collections.namedtuple("Counts", "passed failed skipped")


def count_cases(text):
    """The program's own counts, or None without such a line. doctest's skipped cases do not count."""
    total = Counts(0, 0, 0)
    said = False
    for _, passed, failed, _ in DOCTEST.findall(text):
        total = Counts(total.passed + int(passed), total.failed + int(failed), total.skipped)
        said = True
    for ran, _, details in UNITTEST.findall(text):
        parts = dict(part.split("=") for part in details.split(", ") if "=" in part)
        # Subtests fail one by one, so there may be more failures than tests.
        failed = min(sum(int(parts.get(name, 0)) for name in UNITTEST_FAILED), int(ran))
        skipped = int(parts.get("skipped", 0))
        total = Counts(total.passed + max(int(ran) - failed - skipped, 0), total.failed + failed,
                       total.skipped + skipped)
        said = True
    return total if said else None


def count_test(test):
    outcome = test["result"]
    if outcome == "SKIP":
        return Counts(0, 0, 1)
    # unittest reports on stderr, doctest on stdout.
    text = COLOUR.sub("", test.get("stdout", "") + "\n" + test.get("stderr", ""))
    cases = count_cases(text)
    if outcome in ("OK", "EXPECTEDFAIL"):
        return cases or Counts(1, 0, 0)
    # Crashed, timed out or failed outside of a case: at least one failure, whatever the program reports.
    return cases if cases and cases.failed else Counts(cases.passed if cases else 0, 1, cases.skipped if cases else 0)


def tests_of(build):
    for log in sorted(pathlib.Path(build, "meson-logs").glob("testlog*.json")):
        for line in log.read_text().splitlines():
            yield json.loads(line)


def main():
    total = Counts(0, 0, 0)
    for build in sys.argv[1:]:
        for test in tests_of(build):
            counts = count_test(test)
            total = Counts(*map(sum, zip(total, counts)))
            if counts.failed:
                print(f"failed: {test['name']} in {pathlib.Path(build).name} ({test['result']})")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
