"""Costs of the ledger of MPI calls, with messages of 8 bytes.

    python3 bench/mpi_latency.py XPURUN [--mpi openmpi|mpich] [--rounds N]

Runs bench/mpi_latency.c with two ranks under xpurun, in turns with the preload library and without it
(--no-preload), and prints of each time: the median of the rounds, and the least and the largest of them; of the
difference between the two runs of a round: the median and the middle half.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile

NAMES = ("half of the round trip between two ranks, ns", "MPI_Send to no rank, CPU ns",
         "MPI_Sendrecv with itself, CPU ns", "MPI_Irecv, MPI_Send and MPI_Wait, CPU ns")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("xpurun")
    parser.add_argument("--mpi", default="openmpi", choices=("openmpi", "mpich"))
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_plm="isolated")
    source = pathlib.Path(__file__).with_suffix(".c")
    rounds = {"without": [], "with": []}
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([f"mpicc.{options.mpi}", "-O2", "-o", f"{scratch}/latency", source], check=True)
        for _ in range(options.rounds):
            for side, flags in (("without", ["--no-preload"]), ("with", [])):
                command = [options.xpurun, "--no-report", "--out", f"{scratch}/run", *flags, "--",
                           f"mpirun.{options.mpi}", "-n", "2", f"{scratch}/latency"]
                output = subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
                subprocess.run(["rm", "-rf", f"{scratch}/run"], check=True)
                rounds[side].append([float(word) for word in output.split()])
    print("| | without | with | more |\n| --- | --- | --- | --- |")
    for name, without, with_ledger in zip(NAMES, zip(*rounds["without"]), zip(*rounds["with"])):
        low, middle, high = statistics.quantiles([b - a for a, b in zip(without, with_ledger)], n=4)
        print(f"| {name} | {spread(without)} | {spread(with_ledger)} | {middle:.1f} ({low:.1f} to {high:.1f}) |")


def spread(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


if __name__ == "__main__":
    main()
