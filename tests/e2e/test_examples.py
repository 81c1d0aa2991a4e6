"""examples/ of one node with real launchers: a healthy run, and hangs whose verdict names the rank and its line."""

import shutil
import sys

import examples_test
import xpurun_test
from lane import long
from examples_test import EXAMPLES, needs_mpirun, needs_torch


@needs_torch
class OneNode(examples_test.Case):
    def check_hung(self, script):
        hung = self.run_here(script, "--hang", "1", MASTER_PORT=str(examples_test.free_port()))
        self.assertEqual(hung.returncode, 124, hung.stderr)
        self.check_hang(1)

    @long
    def test_torchrun(self):
        healthy = self.run_here(EXAMPLES / "torchrun" / "run.sh")
        self.assertEqual(healthy.returncode, 0, healthy.stderr)
        self.assertIn("2 ranks, 50 steps", healthy.stdout)
        shutil.rmtree(self.dir / "xpurun-runs")
        self.check_hung(EXAMPLES / "torchrun" / "run.sh")

    @needs_mpirun
    def test_open_mpi(self):
        self.check_hung(EXAMPLES / "mpi" / "run.sh")


if __name__ == "__main__":
    sys.exit(xpurun_test.main())
