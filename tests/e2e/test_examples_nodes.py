"""examples/ of several nodes with real launchers: every node gives the same verdict, about the rank and its line.

The nodes are host names of one machine.
"""

import os
import shutil
import subprocess
import sys
import unittest

import examples_test
import slurm_cluster
import xpurun_test
from examples_test import EXAMPLES, SOURCE, needs_mpirun, needs_nodes, needs_torch

SERVER = shutil.which("nats-server", path=slurm_cluster.PATH)
HELPER = os.environ.get("XPURUN_TEST_NODES", "")
needs_server = unittest.skipUnless(SERVER and HELPER, "needs nats-server and xpurun-nodes")
needs_slurm = unittest.skipIf(slurm_cluster.reason_to_skip(), slurm_cluster.reason_to_skip())


@needs_torch
@needs_nodes
@needs_server
class Torchrun(examples_test.Case):
    def test_two_nodes(self):
        env = self.env()
        nodes = [subprocess.Popen(self.on_node(f"n{n}", EXAMPLES / "torchrun" / "node.sh", n, 2, "n0", "--hang", 3),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.dir, env=env)
                 for n in range(2)]
        self.started += nodes
        said = [node.communicate(timeout=120)[0] for node in nodes]
        self.assertEqual([node.returncode for node in nodes], [124, 124], said)
        self.check_hang(3, count=2)
        self.assertIn("host n1", said[0])


@needs_torch
@needs_nodes
@needs_server
@needs_slurm
class Slurm(examples_test.Case):
    def setUp(self):
        super().setUp()
        self.dir.chmod(0o755)  # munged refuses a socket where others may not enter
        self.cluster = slurm_cluster.SlurmCluster(self, 2, on_node=self.on_node)

    def job(self, script, *args):
        """Submits, waits for the end, and returns exit status and output of the job."""
        done = self.cluster.run("sbatch", "--wait", "--parsable", "--output=job.log", EXAMPLES / "slurm" / script,
                                *args, timeout=150)
        log = self.dir / "job.log"
        return done.returncode, done.stderr + (log.read_text() if log.exists() else "")

    def test_torchrun_on_each_node(self):
        status, said = self.job("job.sbatch")
        self.assertEqual(status, 0, said)
        self.assertIn("4 ranks, 50 steps", said)
        shutil.rmtree(self.dir / "xpurun-runs")
        status, said = self.job("job.sbatch", "--hang", 2)
        self.assertEqual(status, 124, said)
        self.check_hang(2, count=2)

    def test_one_task_for_each_rank(self):
        status, said = self.job("tasks.sbatch", "--hang", 3)
        self.assertEqual(status, 124, said)
        self.check_hang(3, count=4)


@needs_nodes
@needs_server
@needs_mpirun
class OpenMpi(examples_test.Case):
    def setUp(self):
        super().setUp()
        # In the place of ssh: starts mpirun's daemon on the node.
        self.add_program("on-node", *[f"'{word}'" for word in self.on_node("")[:-1]])
        (self.programs / "agent").write_text('#!/bin/sh\nname=$1\nshift\nexec on-node "$name" sh -c "$*"\n')
        (self.programs / "agent").chmod(0o755)

    def env(self, **more):
        return super().env(**{"OMPI_MCA_oob_tcp_if_include": "lo", "OMPI_MCA_btl_tcp_if_include": "lo",
                              "OMPI_MCA_plm_rsh_agent": str(self.programs / "agent"), **more})

    @unittest.skipUnless(shutil.which("mpicc.openmpi"), "needs libopenmpi-dev")
    def test_a_rank_of_a_native_program_on_each_node(self):
        subprocess.run(["mpicc.openmpi", "-g", "-o", self.dir / "faults", SOURCE / "tests/e2e/jobs/mpi_faults.c"],
                       check=True, capture_output=True)
        hung = self.run_here("mpirun.openmpi", "--host", "n0,n1", "--map-by", "ppr:1:node", "xpurun", "--nats", "auto",
                             "--on-hang", "kill", "--", self.dir / "faults", "tag")
        self.assertEqual(hung.returncode, 124, hung.stderr)
        verdicts = self.verdicts()
        self.assertEqual(len(verdicts), 2, hung.stderr)
        for verdict in verdicts.values():
            self.assertEqual((verdict["id"], verdict["level"]), ("hang.p2p", "confirmed"), verdict["sentence"])
            self.assertIn("rank 0 (host n0) called send to rank 1 with tag 7", verdict["sentence"])
            self.assertIn("rank 1 (host n1) called MPI_Recv of 1 int32 from rank 0 with tag 8", verdict["sentence"])

    @needs_torch
    def test_two_nodes(self):
        hung = self.run_here(EXAMPLES / "mpi" / "nodes.sh", "n0,n1", "--hang", 3)
        self.assertEqual(hung.returncode, 124, hung.stderr)
        self.check_hang(3, count=2)


if __name__ == "__main__":
    sys.exit(xpurun_test.main())
