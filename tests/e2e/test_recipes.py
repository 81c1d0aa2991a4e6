"""docs/recipes.md with the installed launchers: their ranks are found, and the hung rank is named."""

import shutil
import sys
import unittest

import xpurun_test
from xpurun_test import PYTHON

JOB = """
import os, sys, time
import torch
import torch.distributed as dist
rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=size)
def load_batch():
    time.sleep(1000)
if rank == 1:
    load_batch()
dist.all_reduce(torch.ones(1))
"""


class Recipes(xpurun_test.Case):
    @unittest.skipIf(shutil.which("mpirun") is None, "Open MPI is not installed")
    def test_open_mpi(self):
        if not xpurun_test.have_torch():
            self.skipTest("torch is not installed")
        script = self.dir / "job.py"
        script.write_text(JOB)
        env = self.env(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_rmaps_base_oversubscribe="1")
        result = self.run_xpurun("--hang-timeout", "3", "--on-hang", "kill", "--grace", "2", "--", "mpirun", "-n", "2",
                                 PYTHON, script, self.dir / "store", env=env)
        self.assertEqual(result.returncode, 124, result.stderr)
        run = self.manifest()
        self.assertEqual(run["world_size"], 2)
        ranks = {p["rank"]: p["identity"] for p in run["processes"] if p["role"] == "rank"}
        self.assertEqual(ranks, {0: "openmpi", 1: "openmpi"})
        self.assertEqual(self.verdict()["ranks"], [1], self.verdict()["sentence"])
        self.assertIn("load_batch", self.verdict()["sentence"])


if __name__ == "__main__":
    sys.exit(xpurun_test.main())
