"""A launcher of three ranks without torch, for the terminal: small_launcher.py FAULT DIR

Rank 1 has the fault, after all ranks wait. As torchrun, the launcher ends the other ranks some time after a rank has
failed, and exits with status 1.
"""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time

RANKS = 3
# Above the time that xpurun looks back to tell a rank that works from a rank that waits, with --poll 200ms.
QUIET_S = 2


def load_batch(fault):
    if fault == "exception":
        raise KeyError("label")
    if fault == "segv":
        ctypes.string_at(0)
    elif fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "exit":
        sys.exit("no shard for rank 1")
    elif fault == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)


def train(rank, fault, directory):
    (directory / f"ready-{rank}").touch()
    if rank == 1:
        while len(list(directory.glob("ready-*"))) < RANKS:
            time.sleep(0.05)
        if fault != "stopped":
            time.sleep(QUIET_S)
        load_batch(fault)
    time.sleep(1000)


def launch(command):
    names = {"WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS), "GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "x",
             "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    ranks = [subprocess.Popen(command, env={**os.environ, **names, "RANK": str(r), "LOCAL_RANK": str(r)})
             for r in range(RANKS)]

    def end(*_):
        for rank in ranks:
            rank.terminate()

    signal.signal(signal.SIGTERM, end)
    while all(rank.poll() is None for rank in ranks):
        time.sleep(1)
    time.sleep(1)
    end()
    for rank in ranks:
        rank.wait()
    return 1


if __name__ == "__main__":
    if "RANK" in os.environ:
        train(int(os.environ["RANK"]), sys.argv[1], pathlib.Path(sys.argv[2]))
    else:
        sys.exit(launch([sys.executable, *sys.argv]))
