"""One node of a gloo job of several nodes: starts its ranks, as a launcher does, with --fault on the rank --guilty.

Started with GROUP_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment. As a rank of the
job (RANK is set) it trains for some steps first.
"""

import argparse
import os
import signal
import subprocess
import sys
import time


def read_next_shard():
    time.sleep(1000)


def load_labels():
    return {}["label"]


def train(arguments):
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    guilty = dist.get_rank() == arguments.guilty
    # A temporary would be freed by a thread of gloo, perhaps while Python ends.
    tensor = torch.ones(4096)
    for _ in range(5):
        dist.all_reduce(tensor)
    if guilty and arguments.fault == "absent":
        read_next_shard()
    if guilty and arguments.fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if guilty and arguments.fault == "raise":
        load_labels()
    last = torch.ones(1000 if guilty and arguments.fault == "size" else 4096)
    dist.all_reduce(last)
    dist.barrier()


def start_ranks():
    """Waits for all ranks: a launcher that ends the others on the first failure has seen the failure, and says so."""
    local = int(os.environ["LOCAL_WORLD_SIZE"])
    first = int(os.environ["GROUP_RANK"]) * local
    ranks = [
        subprocess.Popen([sys.executable, *sys.argv],
                         env={**os.environ, "RANK": str(first + i), "LOCAL_RANK": str(i)}) for i in range(local)
    ]
    codes = [rank.wait() for rank in ranks]
    return next((128 - code if code < 0 else code for code in codes if code != 0), 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", required=True)
    parser.add_argument("--guilty", type=int, required=True)
    arguments = parser.parse_args()
    if arguments.fault == "absent":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "RANK" not in os.environ:
        sys.exit(start_ranks())
    train(arguments)


if __name__ == "__main__":
    main()
