"""Faults in MPI. mpirun starts the ranks; mpi4py makes the calls. Rank 1 has the fault.

usage: mpi_faults.py NAME DIR

A comment `at: NAME` marks the line that the verdict has to name.
"""

import array
import os
import sys
import time

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
LARGE = 1 << 18
FAULTS = {}


def fault(function):
    """Adds a fault under the name of its injection."""
    FAULTS[function.__name__.replace("_", "-")] = function
    return function


def note_fault(directory):
    """The file's time is that of the fault. One rank writes it, after all have come here."""
    WORLD.Barrier()
    if WORLD.rank == 1:
        with open(os.path.join(directory, "fault"), "w"):
            pass


@fault
def mpi_ring():
    """Every rank sends a large message to its neighbour before it receives one."""
    data = array.array("d", bytes(8 * LARGE))
    WORLD.Send(data, (WORLD.rank + 1) % WORLD.size, 3)  # at: mpi-ring
    WORLD.Recv(data, (WORLD.rank - 1) % WORLD.size, 3)


@fault
def mpi_missing_collective():
    if WORLD.rank == 1:
        WORLD.Barrier()  # at: mpi-missing-collective
    else:
        WORLD.Allreduce(array.array("d", [1]), array.array("d", [0]))


@fault
def mpi_window_lock():
    """Rank 0 holds the lock of rank 2's window while it waits for rank 1, which wants the lock."""
    window = MPI.Win.Create(array.array("d", bytes(64)), comm=WORLD)
    if WORLD.rank == 0:
        window.Lock(2, MPI.LOCK_EXCLUSIVE)
    WORLD.Barrier()
    if WORLD.rank == 1:
        time.sleep(0.1)
        window.Lock(2, MPI.LOCK_EXCLUSIVE)  # at: mpi-window-lock
    WORLD.Barrier()


if __name__ == "__main__":
    name, directory = sys.argv[1:]
    for _ in range(3):
        WORLD.Barrier()
    note_fault(directory)
    FAULTS[name]()
