#!/usr/bin/env python3
"""Pause of a training-like process by xpurun-stackdump: Python with torch loaded and 150 threads, each some
Python and C frames deep.

usage: bench/dump_latency.py build/stackdump/xpurun-stackdump [DUMPS] [THREADS]

Prints median and spread of the pause and of the whole run. Exits 1 if the median pause is 20 ms or more.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

from bench_support import PYTHON, read_stacks, target_text

MOST_MS = 20.0


def line(name, values):
    values = sorted(values)
    return (f"{name}: median {statistics.median(values):.2f} ms, min {values[0]:.2f}, "
            f"p90 {values[int(len(values) * 0.9)]:.2f}, max {values[-1]:.2f} ({len(values)} dumps)")


def main():
    program = os.path.abspath(sys.argv[1])
    dumps = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    threads = int(sys.argv[3]) if len(sys.argv) > 3 else 150
    target = subprocess.Popen([PYTHON, "-c", target_text(), str(threads)], stdout=subprocess.PIPE, text=True)
    try:
        what = target.stdout.readline().strip()
        pauses, totals = [], []
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "x.stacks.json")
            for _ in range(dumps):
                begun = time.perf_counter_ns()
                subprocess.run([program, "--pid", str(target.pid), "--out", out], check=True,
                               stdout=subprocess.DEVNULL)
                totals.append((time.perf_counter_ns() - begun) / 1e6)
                stacks = read_stacks(out)
                pauses.append(stacks["pause_ns"] / 1e6)
    finally:
        target.kill()
        target.wait()
    kinds = [f["kind"] for t in stacks["threads"] for f in t["frames"]]
    print(
        f"Python {stacks['python_version']}, {what}: {len(stacks['threads'])} threads, {kinds.count('native')} native "
        f"and {kinds.count('python')} Python frames, {kinds.count('marker')} markers, status {stacks['status']}"
    )
    print(line("paused", pauses))
    print(line("whole run", totals))
    return 1 if statistics.median(pauses) >= MOST_MS else 0


if __name__ == "__main__":
    sys.exit(main())
