"""The unpacked bundle, and the wheel, on a host with an older glibc, by hand: docs/HACKING.md, "Older glibc".

usage: old_host.py BUNDLE_DIRECTORY [WHEEL]
"""

import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

for name in ("XPURUN_TEST_SOURCE", "XPURUN_TEST_BUILD"):
    os.environ.setdefault(name, "/")
import packages  # noqa: E402  pylint: disable=wrong-import-position

BUNDLE = pathlib.Path(sys.argv[1]).resolve()
WHEEL = pathlib.Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else None
XPURUN = BUNDLE / "bin/xpurun"
CRASHES = "import ctypes\ndef touch():\n    ctypes.string_at(16)\ntouch()"


class OldHostTest(packages.Case):
    def test_program(self):
        version = BUNDLE.name.split("-")[1]
        self.check_program(XPURUN, version, sys.executable)

    def test_loader_finds_everything(self):
        elfs = [path for path in BUNDLE.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
        self.assertGreaterEqual(len(elfs), 10)
        for path in elfs:
            if path.parent.parent.name != "lib":
                text = self.succeed("ldd", "-r", path)
                self.assertNotRegex(text, "not found|undefined symbol")

    def test_hang_of_two_processes(self):
        self.check_hang_of_two(XPURUN, "run")
        self.assertIn("read_shard", self.succeed(XPURUN, "report", "--format", "text", "run"))
        self.succeed(XPURUN, "query", "run", "select count(*) from steps")

    def test_hang_on_an_old_kernel(self):
        self.check_hang_of_two(XPURUN, "run", preexec_fn=packages.refuse_new_system_calls)

    def test_crash_has_its_stack(self):
        done = self.run_in_dir(XPURUN, "--out", "run", "--", sys.executable, "-c", CRASHES)
        self.assertEqual(done.returncode, 128 + signal.SIGSEGV, done.stderr)
        self.assertIn("touch", (self.dir / "run/verdict.json").read_text())

    def test_stacks_of_a_process(self):
        with subprocess.Popen([sys.executable, "-c", packages.HANGS]) as process:
            self.addCleanup(process.kill)
            time.sleep(1)
            self.assertIn("read_shard", self.succeed(XPURUN, "stacks", "--pid", process.pid))
            process.kill()

    def test_exceptions_inside_are_caught(self):
        done = self.run_in_dir(XPURUN, "--hang-timeout", "soon", "--", "true")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("xpurun: error: ", done.stderr)

    def test_doctor(self):
        done = self.run_in_dir(XPURUN, "doctor", "--", sys.executable, "-c", "pass")
        self.assertIn("the library reported from", done.stdout + done.stderr)
        self.assertGreaterEqual(done.returncode, 0)
        print(done.stdout, done.stderr, file=sys.stderr)

    def test_helper_of_several_nodes(self):
        done = self.run_in_dir(BUNDLE / "libexec/xpurun/xpurun-nodes")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("descriptor 3", done.stderr)

    @unittest.skipUnless(WHEEL, "no wheel was named")
    def test_wheel(self):
        self.succeed(sys.executable, "-m", "venv", "env")
        self.succeed("env/bin/pip", "install", "--no-index", "--quiet", WHEEL)
        self.check_program(self.dir / "env/bin/xpurun", WHEEL.name.split("-")[1], self.dir / "env/bin/python")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
