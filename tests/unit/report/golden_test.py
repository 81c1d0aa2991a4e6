"""An accepted golden text is reported as skipped, a different text as failed: golden_test.py PROGRAM."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop()
SOURCE = pathlib.Path(os.environ["XPURUN_TEST_SOURCE"])
NAME = "xpu_timer/hang-py_stack.txt"
SKIPPED = 77


class GoldenTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.source = pathlib.Path(folder.name)
        shutil.copytree(SOURCE / "tests/golden", self.source / "tests/golden")
        self.golden = self.source / "tests/golden" / NAME
        self.golden.write_text("something else")

    def status(self, **env):
        run = subprocess.run([PROGRAM, "--source-file=*xpu_timer_test.cpp"], capture_output=True, check=False,
                             env={**os.environ, "XPURUN_TEST_SOURCE": str(self.source), **env})
        return run.returncode

    def test_different(self):
        self.assertEqual(self.status(), 1)

    def test_accepted(self):
        self.assertEqual(self.status(XPURUN_TEST_ACCEPT="1"), SKIPPED)
        self.assertEqual(self.golden.read_text(), (SOURCE / "tests/golden" / NAME).read_text())
        self.assertEqual(self.status(), 0)


SCRIPT = """
import unittest
import golden_files

class Case(unittest.TestCase):
    def test(self):
        golden_files.expect(self, "new/text.txt", "a text")

golden_files.main()
"""


class GoldenFilesTest(unittest.TestCase):
    """The same of tests in Python."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.source = pathlib.Path(folder.name)
        self.golden = self.source / "tests/golden/new/text.txt"

    def status(self, **env):
        run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=False,
                             env={**os.environ, "PYTHONPATH": str(SOURCE / "tests/support"),
                                  "XPURUN_TEST_SOURCE": str(self.source), **env})
        return run.returncode

    def test_absent(self):
        self.assertEqual(self.status(), 1)
        self.assertFalse(self.golden.exists())

    def test_different(self):
        self.golden.parent.mkdir(parents=True)
        self.golden.write_text("another text")
        self.assertEqual(self.status(), 1)
        self.assertEqual(self.status(XPURUN_TEST_ACCEPT="0"), 1)

    def test_accepted(self):
        self.assertEqual(self.status(XPURUN_TEST_ACCEPT="1"), SKIPPED)
        self.assertEqual(self.golden.read_text(), "a text")
        self.assertEqual(self.status(), 0)


if __name__ == "__main__":
    unittest.main()
