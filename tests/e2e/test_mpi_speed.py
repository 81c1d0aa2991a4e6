"""A slow rank of an MPI program: the verdict names it, with its calls. Runs while no other test runs."""

import xpurun_test
from test_mpi import MpiCase, line_of


class MpiSpeed(MpiCase):
    def test_slow_rank(self):
        result, verdict = self.job("imbalance", timeout=60)
        self.assertEqual((verdict["id"], verdict["ranks"]), ("slow.rank", [2]), result.stderr)
        speed = self.speed()
        calls = {c["function"]: c for c in speed["operations"]["program_calls"]}
        joins = calls["MPI_Allreduce"]
        self.assertEqual((joins["place"], joins["times"]["calls"], joins["mean_bytes"]),
                         (f"mpi_faults.c:{line_of('joins')} (imbalance)", 900, 8))
        exchanges = calls["MPI_Sendrecv"]
        self.assertEqual((exchanges["place"], exchanges["times"]["calls"]),
                         (f"mpi_faults.c:{line_of('exchanges')} (imbalance)", 900))
        # The others wait for rank 2 where they need its message, or where all meet.
        self.assertGreater(exchanges["share"] + joins["share"], 0.3)


if __name__ == "__main__":
    xpurun_test.main()
