"""The part of xpurun's log on standard error at -q, by default, at -v and at -vv; xpurun.log has everything."""

import re
import subprocess
import tempfile

import xpurun_test
from program_copy import copy_alone

# The job ends when the signal that it sent has been forwarded to it.
TRAP = "trap 'exit 0' USR1; kill -USR1 $PPID; while :; do sleep 0.05; done"
LEVEL = re.compile(r"^xpurun: (debug|info|warning|error): ", re.M)


class Verbosity(xpurun_test.Case):
    def levels_on_stderr(self, *options):
        # A program without its preload library causes only a warning.
        alone = copy_alone(xpurun_test.PROGRAM, tempfile.mkdtemp(dir=self.dir))
        result = subprocess.run(
            [alone, "--out", str(self.out), *options, "--", "/bin/sh", "-c", TRAP],
            capture_output=True, text=True, timeout=90, cwd=self.dir, env=self.env())
        self.assertEqual(result.returncode, 0, result.stderr)
        return set(LEVEL.findall(result.stderr))

    def setUp(self):
        super().setUp()
        self.log = self.out / "xpurun.log"

    def test_a_command_that_fails_is_told_in_one_sentence(self):
        python = xpurun_test.PYTHON
        for command, sentence in (
                ([python, "-c", "raise ValueError('x')"], r"exception: .* raised ValueError: x at <string>:1"),
                ([python, "-c", "import sys; sys.exit('loss is NaN')"], r"exit: .* called sys.exit\('loss is NaN'\)"),
                (["sh", "-c", "exit 3"], r"exit: the command sh exited with status 3"),
                (["sh", "-c", "kill -9 $$"], r"crash: the command sh .*SIGKILL")):
            with self.subTest(command=command):
                lines = self.run_xpurun("--", *command, out=False).stderr.splitlines()
                ours = [line for line in lines if line.startswith("xpurun: ")]
                self.assertRegex(ours[0], "^xpurun: " + sentence)
                self.assertTrue(ours[1].startswith("xpurun: report: /"), ours)
                self.assertEqual(self.run_xpurun("-q", "--", *command, out=False).stderr.count("xpurun: "), 0)
        self.assertEqual(self.run_xpurun("--", "true", out=False).stderr, "")

    def test_quiet_keeps_warnings_in_the_file(self):
        self.assertEqual(self.levels_on_stderr("-q"), set())
        self.assertRegex(self.log.read_text(), r" warning .*without their stacks")

    def test_warnings_by_default(self):
        self.assertEqual(self.levels_on_stderr(), {"warning"})

    def test_verbose_adds_what_xpurun_does(self):
        self.assertEqual(self.levels_on_stderr("-v"), {"warning", "info"})
        self.assertRegex(self.log.read_text(), r" debug ")

    def test_twice_adds_what_it_sees(self):
        self.assertEqual(self.levels_on_stderr("-vv"), {"warning", "info", "debug"})


if __name__ == "__main__":
    xpurun_test.main()
