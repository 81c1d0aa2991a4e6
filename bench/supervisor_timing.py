#!/usr/bin/env python3
"""Cost of timing for the supervisor: CPU time and memory while 8 ranks on fake GPUs make a step every 20 ms.

usage: bench/supervisor_timing.py BUILD [SECONDS]

BUILD is a build directory. A step has 72 matmuls, 216 kernels and 12 collectives. Prints, for level full within
its budget and with every call timed: the supervisor's CPU time as a share of one core, events per second
of all ranks together, lost events, and the largest resident size.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

from scrape import cpu_s
from supervisor_cost import peak_mib

START = """
for r in 0 1 2 3 4 5 6 7; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=8 "$@" & done
wait
"""


def measure(build, options, seconds):
    with tempfile.TemporaryDirectory() as work:
        out = pathlib.Path(work) / "run"
        job = subprocess.Popen(
            [
                build / "commands/xpurun",
                "-q",
                "--out",
                out,
                "--timing",
                "full",
                *options,
                "--",
                "bash",
                "-c",
                START,
                "bash",
                build / "tests/preload/timing_victim",
                build / "tests/preload/libtiming_body13.so",
                "local",
                "memory",
                "settle",
                "steps",
            ],
            cwd=work,
            stdout=subprocess.DEVNULL,
        )
        time.sleep(8)  # after the start, until the budget has settled
        before, begun = cpu_s(job.pid), time.monotonic()
        time.sleep(seconds)
        share = (cpu_s(job.pid) - before) / (time.monotonic() - begun)
        peak = peak_mib(job.pid)
        (pathlib.Path(work) / "end").touch()
        job.wait()
        ranks = json.loads((out / "timing.json").read_text())["ranks"]
        lost = sum(rank["health"]["ring_dropped"] for rank in ranks)
        events = sum(op["timed"] for rank in ranks for op in rank["ops"]) - lost
        print(
            f"full {' '.join(options)}: {100 * share:.2f} % of one core, {peak:.1f} MiB at most, about"
            f" {events / (seconds + 8):.0f} events a second, {lost} lost"
        )


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 30
    for options in ((), ("--overhead-budget", "100%")):
        measure(build, options, seconds)


if __name__ == "__main__":
    main()
