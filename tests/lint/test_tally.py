"""The counting of .ci/tally.py with output of Meson, doctest and unittest."""

import importlib.util
import os
import pathlib
import unittest

PATH = pathlib.Path(os.environ["XPURUN_TEST_SOURCE"], ".ci/tally.py")
SPEC = importlib.util.spec_from_file_location("tally", PATH)
tally = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tally)

DOCTEST = ("[doctest] test cases:  5 |  4 passed | 1 failed | 2 skipped\n"
           "[doctest] assertions: 50 | 49 passed | 1 failed |\n")


def count(result, stdout="", stderr=""):
    return tuple(tally.count_test({"name": "x", "result": result, "stdout": stdout, "stderr": stderr}))


class TallyTest(unittest.TestCase):
    def test_a_silent_program_is_one(self):
        self.assertEqual(count("OK", "hello"), (1, 0, 0))
        self.assertEqual(count("FAIL"), (0, 1, 0))
        self.assertEqual(count("TIMEOUT"), (0, 1, 0))
        self.assertEqual(count("SKIP"), (0, 0, 1))

    def test_doctest(self):
        self.assertEqual(count("FAIL", DOCTEST), (4, 1, 0))
        self.assertEqual(count("FAIL", "\x1b[0;36m[doctest] \x1b[0mtest cases: \x1b[0;32m5 |  4 passed\x1b[0m | "
                                       "\x1b[0;31m1 failed\x1b[0m | \x1b[0;33m2 skipped\x1b[0m\n"), (4, 1, 0))

    def test_unittest(self):
        self.assertEqual(count("OK", stderr="Ran 39 tests in 1.484s\n\nOK\n"), (39, 0, 0))
        self.assertEqual(count("OK", stderr="Ran 1 test in 0.1s\n\nOK (skipped=1)\n"), (0, 0, 1))
        self.assertEqual(count("FAIL", stderr="Ran 9 tests in 1s\n\nFAILED (failures=2, errors=1, skipped=2)\n"),
                         (4, 3, 2))

    def test_subtests_do_not_make_more_failures_than_tests(self):
        self.assertEqual(count("FAIL", stderr="Ran 1 test in 1s\n\nFAILED (failures=7)\n"), (0, 1, 0))

    def test_a_crash_after_the_cases_is_a_failure(self):
        self.assertEqual(count("FAIL", stderr="Ran 3 tests in 1s\n\nOK\n"), (3, 1, 0))
        self.assertEqual(count("ERROR", "half a line"), (0, 1, 0))


if __name__ == "__main__":
    unittest.main()
