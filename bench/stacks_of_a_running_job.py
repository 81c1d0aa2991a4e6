#!/usr/bin/env python3
"""A training job whose ranks are dumped repeatedly while it runs: lost steps and slowdown.

usage: bench/stacks_of_a_running_job.py [--build DIR] [--seconds N] [--rate N] [--ranks N] [--backend gloo|nccl]

Runs tests/e2e/jobs/ddp_job.py under torchrun, lets it run undisturbed, dumps every rank --rate times a second for
--seconds, and lets it run undisturbed again. Steps are counted from the lines of rank 0. A dump that still resolves
symbols when the next dump is due continues in parallel.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from bench_support import PYTHON, arguments, helper_of

HERE = os.path.dirname(os.path.abspath(__file__))
JOB = os.path.join(HERE, "..", "tests", "e2e", "jobs", "ddp_job.py")
MOST_AT_ONCE = 16  # helpers; more would only measure a pile-up


def ranks_of(launcher):
    with open(f"/proc/{launcher}/task/{launcher}/children") as f:
        return [int(p) for p in f.read().split()]


class Steps:
    """Times of rank 0's steps."""

    def __init__(self, stream):
        self.seen = []
        self.thread = threading.Thread(target=self.read, args=(stream,), daemon=True)
        self.thread.start()

    def read(self, stream):
        for line in stream:
            found = re.search(r"step (\d+) loss (\S+)", line)
            if found:
                self.seen.append((time.perf_counter(), int(found[1])))

    def rate(self, begin, end):
        times = [t for t, _ in self.seen if begin <= t < end]
        gaps = [b - a for a, b in zip(times, times[1:])]
        return len(times) / (end - begin), max(gaps, default=0) * 1e3


def main():
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backend", default="gloo")
    args = parser.parse_args()
    helper = helper_of(args)
    quiet = max(args.seconds / 3, 5)
    logs = tempfile.TemporaryDirectory()  # torch 1.13 under Python 3.11 starts only with teed output
    job = subprocess.Popen(
        [
            PYTHON,
            "-m",
            "torch.distributed.run",
            "--nproc_per_node",
            str(args.ranks),
            "--rdzv_backend",
            "c10d",
            "--rdzv_endpoint",
            "127.0.0.1:0",
            "-r",
            "1",
            "-t",
            "1",
            "--log_dir",
            logs.name,
            JOB,
            "--steps",
            "1000000000",
            "--backend",
            args.backend,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        steps = Steps(job.stdout)
        deadline = time.monotonic() + 120
        while len(steps.seen) < 20:
            if job.poll() is not None or time.monotonic() > deadline:
                sys.exit("the job does not start")
            time.sleep(0.1)
        pids = ranks_of(job.pid)
        start = time.perf_counter()
        time.sleep(quiet)
        begin = time.perf_counter()
        running, failed, late, taken, pauses = [], 0, 0, 0, []
        with tempfile.TemporaryDirectory() as folder:
            def collect(block):
                nonlocal failed
                for child in list(running):
                    if block or child.poll() is not None:
                        out, _ = child.communicate(timeout=60)
                        running.remove(child)
                        failed += child.returncode != 0
                        found = re.search(r"^stopped \d+ (\d+)", out, re.M)
                        if found:
                            pauses.append(int(found[1]) / 1e6)
            n = 0
            while time.perf_counter() - begin < args.seconds:
                due = begin + n / args.rate
                time.sleep(max(0.0, due - time.perf_counter()))
                collect(False)
                n += 1
                if len(running) + len(pids) > MOST_AT_ONCE:
                    late += 1
                    continue
                taken += 1
                for pid in pids:
                    running.append(
                        subprocess.Popen(
                            [helper, "--pid", str(pid), "--out", f"{folder}/{pid}-{n}.stacks.json"],
                            stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL,
                            text=True,
                        )
                    )
            end = time.perf_counter()
            collect(True)
        time.sleep(1)
        after = time.perf_counter()
        time.sleep(quiet)
        stop = time.perf_counter()
        alive = job.poll() is None and ranks_of(job.pid) == pids
        numbers = [n for _, n in steps.seen]
        lost = sum(b != a + 1 for a, b in zip(numbers, numbers[1:]))
        print(
            f"{args.backend}, {len(pids)} ranks, {args.seconds:.0f} s, {os.cpu_count()} cores, load"
            f" {os.getloadavg()[0]:.1f}"
        )
        for name, (rate, worst) in (("before", steps.rate(start, begin)), ("dumping", steps.rate(begin, end)),
                                    ("after", steps.rate(after, stop))):
            print(f"{name:8} {rate:7.2f} steps/s, longest time without one {worst:.0f} ms")
        undisturbed = (steps.rate(start, begin)[0] + steps.rate(after, stop)[0]) / 2
        print(
            f"dumps    {taken / args.seconds:.1f}/s of each rank, {failed} failed, {late} left out because "
            f"{MOST_AT_ONCE} were under way; paused median {statistics.median(pauses):.2f} ms, max {max(pauses):.2f} ms"
        )
        print(f"slowdown {100 * (1 - steps.rate(begin, end)[0] / undisturbed):.1f} %, steps lost: {lost}, "
              f"job {'runs' if alive else 'DIED'}")
        return 0 if alive and lost == 0 else 1
    finally:
        job.terminate()
        try:
            job.wait(20)
        except subprocess.TimeoutExpired:
            job.kill()


if __name__ == "__main__":
    sys.exit(main())
