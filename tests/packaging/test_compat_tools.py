"""The commands with xpu_timer's names call xpurun with what they mean."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

TOOLS = pathlib.Path(os.environ["XPURUN_TEST_SOURCE"], "packaging/compat")


class CompatToolsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="xpurun-compat-")
        self.addCleanup(scratch.cleanup)
        self.dir = pathlib.Path(scratch.name)
        for tool in TOOLS.iterdir():
            shutil.copy(tool, self.dir)
        told = self.dir / "xpurun"
        told.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
        told.chmod(0o755)
        for rank in range(2):
            (self.dir / f"0000{rank}-00002.timeline").touch()

    def words(self, tool, *arguments, status=0):
        done = subprocess.run([self.dir / tool, *arguments], cwd=self.dir, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout.splitlines() if status == 0 else done.stderr

    def test_launch(self):
        command = ["python", "a b.py", "--path"]
        self.assertEqual(self.words("xpu_timer_launch", *command), ["--", *command])

    def test_stacktrace_viewer(self):
        self.assertEqual(self.words("xpu_timer_stacktrace_viewer"), ["stacks", "--compat", "xpu_timer", "."])
        self.assertEqual(self.words("xpu_timer_stacktrace_viewer", "--path", "a b")[-1], "a b")
        self.assertIn("usage", self.words("xpu_timer_stacktrace_viewer", "a", status=2))

    def test_gen_trace_timeline(self):
        everything = "matmul,collective,memory,kernel,graph,host,python"
        self.assertEqual(self.words("xpu_timer_gen_trace_timeline"),
                         ["timeline", ".", "-o", "./trace_dp2.bin", "--only", everything])
        self.assertEqual(self.words("xpu_timer_gen_trace_timeline", "-p", "x", "-c", "16", "--timeline-version=2",
                                    "--no-launchtime", "--no-matmul", "--no-nccl", "--groups", "tp2-dp4"),
                         ["timeline", "x", "-o", "x/trace_tp2_dp4.bin", "--only", "memory,kernel,graph,host,python",
                          "--groups", "tp2-dp4", "--first-group"])
        self.assertEqual(self.words("xpu_timer_gen_trace_timeline", "--output=mine")[3], "./trace_mine.bin")
        self.assertIn("usage", self.words("xpu_timer_gen_trace_timeline", "--what", status=2))


if __name__ == "__main__":
    unittest.main()
