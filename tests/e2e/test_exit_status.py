"""xpurun's exit status equals that of the same command without xpurun."""

import json
import shutil
import subprocess
import unittest

import xpurun_test
from lane import LONG
from xpurun_test import PYTHON

# Under a shell, as users see a status: death by signal N becomes 128+N.
COMMANDS = [
    ["true"],
    ["false"],
    ["sh", "-c", "exit 3"],
    ["sh", "-c", "exit 124"],
    ["sh", "-c", "exit 125"],
    ["sh", "-c", "exit 255"],
    ["sh", "-c", "kill -TERM $$"],
    ["sh", "-c", "kill -KILL $$"],
    ["sh", "-c", "kill -SEGV $$"],
    ["sh", "-c", "kill -INT $$"],
    ["sh", "-c", "kill -USR1 $$"],
    ["bash", "-c", "true | false"],
    ["bash", "-c", "false | true"],
    ["bash", "-c", "set -o pipefail; exit 7 | true"],
    ["bash", "-c", "sleep 0.1 & exit 4"],
    [PYTHON, "-c", "import sys; sys.exit(9)"],
    [PYTHON, "-c", "raise SystemError"],
    [PYTHON, "-c", "import os; os.abort()"],
    [PYTHON, "-c", "import ctypes; ctypes.string_at(0)"],
    [PYTHON, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"],
    ["no-such-program-at-all"],
    ["/etc/passwd"],
]


def shell_status(argv):
    status = subprocess.run(["bash", "-c", '"$@"; exit $?', "bash", *argv], capture_output=True).returncode
    return status


PROCESSES = """
import multiprocessing as mp, sys
def train(rank):
    if rank == 1:
        raise ValueError("bad batch")
if __name__ == "__main__":
    ranks = [mp.Process(target=train, args=(r,)) for r in range(2)]
    [r.start() for r in ranks]; [r.join() for r in ranks]
    sys.exit(max(r.exitcode for r in ranks))
"""
RAISES = """
import os
if os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("RANK", "1")) == "1":
    raise ValueError("bad batch")
"""


class ExitStatus(xpurun_test.Case):
    def test_a_command_that_fails_is_told_with_every_launcher(self):
        """Jobs of a moment, too."""
        raises, processes = self.dir / "train.py", self.dir / "processes.py"
        raises.write_text(RAISES)
        processes.write_text(PROCESSES)
        jobs = {"single": [PYTHON, raises], "processes": [PYTHON, processes]}
        if xpurun_test.have_torch():
            jobs["torchrun"] = xpurun_test.torchrun(self.dir / "log", ranks=2, job=raises)
        if shutil.which("mpirun.openmpi"):
            jobs["mpirun"] = ["mpirun.openmpi", "--oversubscribe", "-n", "2", PYTHON, raises]
        env = self.env(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_plm="isolated")
        runs = {name: self.start_xpurun("--no-report", "--out", self.dir / name, "--", *command, out=False, env=env)
                for name, command in jobs.items()}
        for name, run in runs.items():
            with self.subTest(name):
                said = run.communicate(timeout=60)[1]
                self.assertEqual(run.returncode, 1, said)
                self.assertRegex(said, r"(?m)^xpurun: .* raised ValueError: bad batch .*\w+\.py:\d+")

    def test_same_as_without_xpurun(self):
        for i, argv in enumerate(COMMANDS):
            with self.subTest(argv=argv):
                self.out = self.dir / f"run{i}"
                self.assertEqual(self.run_xpurun("--", *argv).returncode, shell_status(argv))

    def test_the_verdict_without_a_report(self):
        result = self.run_xpurun("--no-report", "--", "sh", "-c", "exit 3")
        self.assertEqual(result.returncode, 3)
        self.assertRegex(result.stderr, r"\Axpurun: exit: .* status 3.*\n\Z")
        self.assertEqual(self.verdict()["sentence"], result.stderr.removeprefix("xpurun: ").rstrip())
        self.assertFalse((self.out / "report.html").exists())
        self.out = self.dir / "well"
        self.assertEqual(self.run_xpurun("--no-report", "--", "true").stderr, "")
        self.assertFalse((self.out / "verdict.json").exists())

    def test_own_failure_is_125(self):
        (self.dir / "file").write_text("")
        result = self.run_xpurun("--out", self.dir / "file" / "sub", "--", "true", out=False)
        self.assertEqual(result.returncode, 125)
        self.assertIn("E-OUT-DIR", result.stderr)

    def test_a_launcher_that_starts_no_rank_is_none(self):
        script = self.dir / "torchrun"
        script.write_text("import sys\nsys.exit(2)\n")
        result = self.run_xpurun("--", PYTHON, script)
        self.assertEqual(result.returncode, 2)
        verdict = json.loads((self.out / "verdict.json").read_text())
        self.assertEqual((verdict["id"], verdict["ranks"]), ("exit.launcher", []), verdict)
        self.assertIn("the launcher", verdict["sentence"])

    def test_missing_program_says_what_to_try(self):
        result = self.run_xpurun("--", "no-such-program")
        self.assertEqual(result.returncode, 127)
        self.assertIn("no-such-program", result.stderr)
        self.assertIn("try:", result.stderr)
        self.assertFalse(self.out.exists(), "a mistyped command leaves nothing behind")

    def test_run_json_has_the_whole_truth(self):
        self.run_xpurun("--", "sh", "-c", "kill -KILL $$")
        run = self.manifest()
        self.assertEqual((run["outcome"], run["child_status"], run["exit_status"]), ("signal", 9, 137))


@unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
class Torchrun(xpurun_test.Case):
    def test_success_and_failures(self):
        # torchrun turns every failure into 1; a rank's death by signal takes precedence.
        quick = (("segv", 139),)
        for fault, expected in (*quick, ("none", 0), ("raise", 1), ("kill", 137), ("abort", 134)) if LONG else quick:
            with self.subTest(fault=fault):
                self.out = self.dir / fault
                result = self.run_xpurun("--", *xpurun_test.torchrun(self.dir / "log", "--guilty", 1, "--fault",
                                                                       fault, "--steps", 6, ranks=2))
                self.assertEqual(result.returncode, expected, result.stderr)


if __name__ == "__main__":
    xpurun_test.main()
