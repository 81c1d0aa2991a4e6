"""xpurun selftest: every injection that needs no GPU gets the right verdict; a wrong one is reported and counted."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

import program_copy
import xpurun_test
from lane import LONG
from xpurun_test import PROGRAM, PYTHON, SOURCE

# One injection of each kind; the long lane tries all.
QUICK = ("healthy", "wrong-size", "silent-mismatch", "ghost-rank", "missing-send", "lock-order", "exception", "abort")
NEED_A_GPU = {"endless-kernel", "stuck-before-launch", "cuda-oom", "device-assert"}
BUILD = pathlib.Path(os.environ["XPURUN_TEST_BUILD"])


def installed_tree(root):
    """The parts of xpurun at their installed positions, as copies."""
    program = root / "bin" / "xpurun"
    program.parent.mkdir(parents=True)
    shutil.copy2(PROGRAM, program)
    program_copy.copy_library(PROGRAM, root)
    for part, place in (("stackdump/xpurun-stackdump", "libexec/xpurun"),
                        ("preload/libxpurun_preload.so", "lib/xpurun")):
        (root / place).mkdir(parents=True, exist_ok=True)
        (root / place / pathlib.Path(part).name).symlink_to(BUILD / part)
    job = root / "lib/xpurun/selftest"
    shutil.copytree(SOURCE / "commands/selftest/job", job, ignore=shutil.ignore_patterns("__pycache__"))
    return program, job


class SelftestCase(xpurun_test.Case):
    def selftest(self, *args, program=PROGRAM, python=PYTHON, timeout=550, **env):
        return subprocess.run([program, "selftest", *args, "--", python], capture_output=True, text=True, cwd=self.dir,
                              timeout=timeout, env=self.env(TMPDIR=str(self.dir), **env))

    def left_behind(self):
        """Processes that carry the directory of this test in their environment."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if str(self.dir).encode() in (entry / "environ").read_bytes():
                        found.append((entry / "cmdline").read_bytes().replace(b"\0", b" "))
                except OSError:
                    pass  # another user's, or ended
        return found


@unittest.skipUnless(xpurun_test.have_torch(), "no torch")
class Injections(SelftestCase):
    def test_every_injection_gets_the_right_verdict(self):
        chosen = () if LONG else ("--inject", ",".join((*QUICK, *NEED_A_GPU)))
        done = self.selftest("--json", "--keep", *chosen)  # the files of a wrong trial are wanted
        report = json.loads(done.stdout)
        wrong = {trial["injection"]: (trial["differences"], (trial["given"] or {}).get("evidence"))
                 for trial in report["trials"] if trial["result"] == "wrong"}
        self.assertEqual(wrong, {})
        skipped = {trial["injection"] for trial in report["trials"] if trial["result"] == "skipped"}
        self.assertEqual(skipped, NEED_A_GPU)
        self.assertTrue(report["ok"])
        self.assertEqual(done.returncode, 0)
        self.assertEqual([entry.name.startswith("xpurun-selftest-") for entry in self.dir.iterdir()], [True])
        self.assertEqual(self.left_behind(), [])


@unittest.skipUnless(xpurun_test.have_torch(), "no torch")
class Table(SelftestCase):
    def test_a_right_verdict(self):
        done = self.selftest("--inject", "rank-killed", COLUMNS="80")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^right +rank-killed +crash, rank 1 +crash, rank 1 +\d+\.\d$")
        self.assertIn("1 right, 0 wrong, 0 skipped", done.stdout)
        self.assertEqual(list(self.dir.iterdir()), [])

    def test_a_verdict_that_is_not_as_expected_is_wrong(self):
        program, job = installed_tree(self.dir / "tree")
        training = job / "training.py"
        text = training.read_text()
        self.assertIn("culprit = 1", text)
        training.write_text(text.replace("culprit = 1", "culprit = 0"))
        done = self.selftest("--inject", "rank-killed", "--keep", program=str(program))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^wrong +rank-killed +crash, rank 1 +crash, rank 0 ")
        self.assertIn("rank 0 instead of rank 1", done.stdout)
        kept = pathlib.Path(re.search(r"(?m)^kept: (.*)$", done.stdout).group(1))
        self.assertEqual(json.loads((kept / "rank-killed/run/verdict.json").read_text())["ranks"], [0])

    def test_what_is_killed_midway_leaves_nothing(self):
        process = subprocess.Popen([PROGRAM, "selftest", "--inject", "never-enters", "--", PYTHON], cwd=self.dir,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env(TMPDIR=str(self.dir)))
        self.started.append(process)
        self.wait_for(lambda: list(self.dir.glob("xpurun-selftest*/never-enters/fault")), "fault", 60)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 128 + signal.SIGTERM)
        self.assertEqual(list(self.dir.iterdir()), [])
        self.assertEqual(self.left_behind(), [])


class WithoutTorch(SelftestCase):
    def test_what_cannot_be_tried_is_skipped_with_the_reason(self):
        (self.dir / "torch.py").write_text("raise ImportError('no such library')\n")
        done = self.selftest("--inject", "segv,exception", PYTHONPATH=str(self.dir))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout.count("no torch: ImportError: no such library"), 2)
        self.assertIn("Nothing could be tried here.", done.stdout)

    def test_a_python_that_is_none(self):
        done = self.selftest(python="true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot run the selftest's job", done.stderr)

    def test_the_list(self):
        done = self.selftest("--list", "--inject", "segv,wrong-size")
        self.assertEqual(done.returncode, 0)
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()], ["segv", "wrong-size"])
        listed = json.loads(self.selftest("--list", "--json").stdout)
        self.assertGreaterEqual(len(listed["injections"]), 37)

    def test_a_misspelt_name(self):
        done = self.selftest("--inject", "wrong-sise")
        self.assertEqual(done.returncode, 2)
        self.assertIn("did you mean wrong-size?", done.stderr)

    def test_the_documentation_names_every_injection(self):
        listed = [entry["name"] for kind in ((), ("--slow",))
                  for entry in json.loads(self.selftest("--list", "--json", *kind).stdout)["injections"]]
        table = (SOURCE / "docs" / "selftest.md").read_text().split("## Injections")[1].split("## JSON")[0]
        rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
        self.assertEqual(re.findall(r"`([a-z-]+)`", "".join(rows)), listed)


if __name__ == "__main__":
    xpurun_test.main()
