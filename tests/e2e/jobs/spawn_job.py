"""A job that starts its own processes, without any launcher's variables: spawn_job.py WAY FAULT SECONDS

WAY: spawn, fork, forkserver (multiprocessing, joined), torch (torch.multiprocessing.spawn) or subprocess (this
program again). Each process steps for SECONDS; those of multiprocessing meet at a barrier in every step. In its fifth
step the second process (the only process with subprocess) performs FAULT; late-segv crashes after five seconds.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

RANKS = 3


def read_shard():
    time.sleep(10000)


def load_batch(step, guilty, fault):
    if guilty and step == (100 if fault == "late-segv" else 5):
        if fault in ("sleep", "stubborn"):
            read_shard()
        elif fault == "raise":
            raise RuntimeError("bad shard")
        elif fault.endswith("segv"):
            os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(0.05)


def train(rank, barrier, guilty, fault, seconds):
    if fault == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end = time.monotonic() + seconds
    step = 0
    while time.monotonic() < end if barrier is None else step < seconds / 0.05:
        load_batch(step, rank == guilty, fault)
        if barrier is not None:
            barrier.wait()
        step += 1


def main():
    way, fault, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    if way == "alone":
        train(0, None, 0, fault, seconds)
    elif way == "subprocess":
        # Like programs that test an import in a child process: the child fails and is not a rank.
        subprocess.run([sys.executable, "-c", "import time; time.sleep(0.3); raise SystemExit(3)"])
        subprocess.run([sys.executable, __file__, "alone", fault, str(seconds)], check=True)
    elif way == "torch":
        import torch.multiprocessing
        barrier = torch.multiprocessing.get_context("spawn").Barrier(RANKS)
        torch.multiprocessing.spawn(train, args=(barrier, 1, fault, seconds), nprocs=RANKS)
    else:
        context = multiprocessing.get_context(way)
        barrier = context.Barrier(RANKS)
        processes = [context.Process(target=train, args=(rank, barrier, 1, fault, seconds)) for rank in range(RANKS)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()


if __name__ == "__main__":
    main()
