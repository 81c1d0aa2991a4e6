"""Hangs and crashes in MPI: the recorded calls of all ranks name who waits for whom, with the program's lines."""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest

import xpurun_test
from lane import long

SOURCE = xpurun_test.SOURCE / "tests/e2e/jobs/mpi_faults.c"


def find_mpi():
    """The pairs of compiler and launcher that are installed: Open MPI, MPICH."""
    pairs = [("mpicc.openmpi", ["mpirun.openmpi", "--oversubscribe"]), ("mpicc.mpich", ["mpirun.mpich"])]
    return [(cc, run) for cc, run in pairs if shutil.which(cc) and shutil.which(run[0])]


def line_of(comment):
    lines = SOURCE.read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if f"/* {comment} */" in line)


@unittest.skipUnless(find_mpi(), "needs libopenmpi-dev and openmpi-bin, or libmpich-dev and mpich")
class MpiCase(xpurun_test.Case):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.scratch)
        cls.programs = []
        for cc, run in find_mpi():
            program = f"{cls.scratch}/{cc}"
            subprocess.run([cc, "-g", "-O1", "-o", program, SOURCE], check=True, capture_output=True)
            cls.programs.append(run + ["-n", "3", program])

    def mpi_env(self):
        """A container may have no ssh, and only root."""
        return self.env(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_plm="isolated")

    def job(self, fault, timeout=2, mpi=0):
        result = self.run_xpurun("--hang-timeout", timeout, "--on-hang", "kill", "--grace", 1, "--",
                                 *self.programs[mpi], fault, env=self.mpi_env())
        return result, self.verdict()

    def speed(self):
        """What xpurun analyze says of the run."""
        return json.loads(self.run_xpurun("analyze", "--format", "json", self.out, out=False).stdout)


class Mpi(MpiCase):
    def check_hang(self, fault, name, *expected, mpi=0):
        result, verdict = self.job(fault, mpi=mpi)
        self.assertEqual(result.returncode, 124, result.stderr)
        self.assertEqual((verdict["id"], verdict["level"]), (name, "confirmed"), json.dumps(verdict, indent=1))
        for text in expected:
            self.assertIn(text, verdict["sentence"])
        return verdict

    def test_different_collectives(self):
        verdict = self.check_hang("collective", "hang.mismatch",
                                  f"rank 2 called MPI_Allreduce of 1 float64 (mpi_faults.c:{line_of('reduces')})",
                                  f"ranks 0-1 called MPI_Comm_split (mpi_faults.c:{line_of('splits')})")
        self.assertEqual(verdict["ranks"], [2])
        stall = self.manifest()["stalls"][0]
        self.assertLess(stall["at_s"] - stall["since_s"], 2 + 3)

    def test_ring_of_sends(self):
        line = line_of("sends")
        self.check_hang("ring", "hang.p2p",
                        f"rank 0 waits in MPI_Send of 262144 float64 to rank 1 with tag 1 (mpi_faults.c:{line})",
                        f"rank 2 waits in MPI_Send of 262144 float64 to rank 0 with tag 1 (mpi_faults.c:{line})")

    def test_another_tag(self):
        self.check_hang("tag", "hang.p2p", "a send and its recv differ: rank 0 called send to rank 1 with tag 7",
                        "rank 1 called MPI_Recv of 1 int32 from rank 0 with tag 8 "
                        f"(mpi_faults.c:{line_of('receives')})")

    def test_receive_from_any_rank(self):
        self.check_hang("wildcard", "hang.p2p",
                        "rank 0 waits in MPI_Recv of 1 int32 from any rank with any tag "
                        f"(mpi_faults.c:{line_of('any')})")

    def test_lock_of_a_window(self):
        self.check_hang("window", "hang.order", "for a lock that rank 0 holds",
                        "rank 1 waits in MPI_Win_lock on rank 2")

    def test_epoch_of_a_window(self):
        self.check_hang("epoch", "hang.mismatch",
                        f"rank 0 called MPI_Win_start from rank 1 (mpi_faults.c:{line_of('begins')}) "
                        "where ranks 1-2 called MPI_Barrier")

    def test_leaders_of_two_groups(self):
        self.check_hang("leaders", "hang.p2p", "MPI_Intercomm_create", "with tag 8", "with tag 9",
                        f"(mpi_faults.c:{line_of('meets')})")

    def test_collective_of_two_groups(self):
        verdict = self.check_hang("groups", "hang.mismatch", f"MPI_Barrier (mpi_faults.c:{line_of('misses')})")
        self.assertEqual(verdict["ranks"], [2])

    def test_loop_that_polls(self):
        verdict = self.check_hang("poll", "hang.mismatch",
                                  "rank 0 called MPI_Test(MPI_Irecv) of 1 int32 from rank 1 with tag 5")
        self.assertEqual(verdict["where"]["line"], line_of("polls"))

    def test_crash_inside_of_a_call(self):
        result, verdict = self.job("crash", timeout=60)
        self.assertEqual((verdict["kind"], verdict["ranks"]), ("crash", [1]), result.stderr)
        self.assertEqual((verdict["where"]["function"], verdict["where"]["line"]), ("crash", line_of("crashes")))

    def test_error_and_abort(self):
        result, verdict = self.job("error", timeout=60)
        self.assertEqual((verdict["kind"], verdict["ranks"]), ("exit", [1]), result.stderr)
        self.assertIn("after MPI_Send had failed with MPI_ERR_RANK in error "
                      f"(mpi_faults.c:{line_of('errs')})", verdict["sentence"])
        shutil.rmtree(self.out)
        result, verdict = self.job("aborts", timeout=60)
        self.assertEqual((verdict["kind"], verdict["ranks"], verdict["exit_code"]), ("exit", [1], 3), result.stderr)
        self.assertIn(f"by MPI_Abort in aborts (mpi_faults.c:{line_of('aborts')})", verdict["sentence"])

    def test_calls_that_are_not_timed_are_counted(self):
        result, verdict = self.job("stream", timeout=60)
        self.assertEqual((result.returncode, verdict["kind"]), (0, "none"), result.stderr)
        speed = self.speed()
        calls = {c["place"]: c for c in speed["operations"]["program_calls"]}
        sends = calls[f"mpi_faults.c:{line_of('streams')} (stream)"]
        self.assertEqual((sends["function"], sends["times"]["calls"], sends["ranks"]), ("MPI_Send", 100000, "0"))
        self.assertLess(sends["times"]["count"], 50000)

    def test_requests_that_are_left(self):
        result, verdict = self.job("leaves", timeout=60)
        self.assertEqual((result.returncode, verdict["id"], verdict["ranks"]), (0, "none.requests_left", [0]))
        # Either of the two.
        self.assertRegex(result.stderr, r"rank 0 never completed 2 requests of MPI: MPI_Irecv of 262144 float64 from "
                         rf"rank 1( with tag 1)? \(mpi_faults\.c:{line_of('leaves')}\)")

    def test_waits_that_end(self):
        for fault in ("healthy", "epochs"):
            with self.subTest(fault):
                self.out = self.dir / fault
                result, verdict = self.job(fault)
                self.assertEqual((result.returncode, verdict["kind"]), (0, "none"), result.stderr)

    def test_arguments_that_a_call_ignores(self):
        for mpi in range(len(self.programs)):
            with self.subTest(mpi=self.programs[mpi][0]):
                self.out = self.dir / str(mpi)
                result, verdict = self.job("ignored", timeout=60, mpi=mpi)
                self.assertEqual((result.returncode, verdict["kind"]), (0, "none"), result.stderr)

    @long
    @unittest.skipUnless(len(find_mpi()) > 1, "needs Open MPI and MPICH")
    def test_the_other_library(self):
        self.check_hang("collective", "hang.mismatch", "rank 2 called MPI_Allreduce of 1 float64", mpi=1)
        shutil.rmtree(self.out)
        self.check_hang("wildcard", "hang.p2p", "rank 0 waits in MPI_Recv of 1 int32 from any rank", mpi=1)
        shutil.rmtree(self.out)
        verdict = self.check_hang("partitions", "hang.not_entered", f"(mpi_faults.c:{line_of('lacks')})", mpi=1)
        self.assertEqual(verdict["ranks"], [0])
        shutil.rmtree(self.out)
        verdict = self.check_hang("persistent", "hang.mismatch", "rank 1 called MPI_Barrier",
                                  "MPI_Wait(MPI_Allreduce_init) of 1 float64", mpi=1)
        self.assertEqual(verdict["ranks"], [1])


if __name__ == "__main__":
    sys.exit(xpurun_test.main())
