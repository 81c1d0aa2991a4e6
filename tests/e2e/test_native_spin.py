"""Native ranks that spin without MPI: who goes nowhere is told, and who computes is left alone."""

import shutil
import subprocess
import sys
import tempfile
import unittest

import xpurun_test
from lane import long

SOURCE = xpurun_test.SOURCE / "tests/e2e/jobs/native_spin.c"
LAUNCH = 'for rank in 0 1; do RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 "$@" & done; wait'


def line_of(comment):
    lines = SOURCE.read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if f"/* {comment} */" in line)


@unittest.skipUnless(shutil.which("cc"), "needs a C compiler")
class NativeSpin(xpurun_test.Case):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.scratch)
        cls.program = f"{cls.scratch}/native_spin"
        subprocess.run(["cc", "-g", "-O1", "-std=gnu11", "-o", cls.program, SOURCE], check=True, capture_output=True)

    def job(self, name, seconds=0):
        self.run_xpurun("--hang-timeout", 2, "--on-hang", "kill", "--grace", 1, "--", "sh", "-c", LAUNCH, "sh",
                        self.program, name, self.dir / "meeting", seconds)
        return self.verdict()

    def test_flag_that_nobody_sets(self):
        verdict = self.job("flag")
        self.assertEqual((verdict["kind"], verdict["level"]), ("hang", "confirmed"), verdict["sentence"])
        self.assertIn(f"wait_for_flag (native_spin.c:{line_of('spins')})", verdict["sentence"])

    @long
    def test_work_for_many_timeouts(self):
        verdict = self.job("work", 14)
        self.assertEqual(verdict["id"], "none.finished", verdict["sentence"])
        levels = {stall["verdict"]["level"] for stall in self.manifest()["stalls"]}
        self.assertLessEqual(levels, {"suspected", ""})


if __name__ == "__main__":
    sys.exit(xpurun_test.main())
