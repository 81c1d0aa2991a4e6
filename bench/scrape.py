#!/usr/bin/env python3
"""Cost of a scrape of /metrics with eight ranks that time matmuls, collectives and memory, on fake GPUs.

usage: bench/scrape.py BUILD [SCRAPES]

BUILD is a build directory. Prints median, minimum and maximum of the time of SCRAPES scrapes as a client sees it,
including the connection, for both formats; the size of the answer; and the supervisor's CPU time per scrape.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

RANKS = 8
START = """
for r in 0 1 2 3 4 5 6 7; do
  (while ! [ -e end ]; do sleep 0.2; done; echo) | RANK=$r LOCAL_RANK=$r WORLD_SIZE=8 "$@" &
done
wait
"""
SCENES = ("memory", "settle", "matmuls", "collectives", "lt", "groups", "p2p", "threads", "settle", "wait")


def scrape(url, accept):
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=10) as answer:
        return answer.read()


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(fields[0]) * 1e-9


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    with tempfile.TemporaryDirectory() as work:
        out = pathlib.Path(work) / "run"
        job = subprocess.Popen(
            [
                build / "commands/xpurun",
                "--out",
                out,
                "--timing",
                "full",
                *sys.argv[3:],
                "--",
                "bash",
                "-c",
                START,
                "bash",
                build / "tests/preload/timing_victim",
                build / "tests/preload/libtiming_body13.so",
                "local",
                *SCENES,
            ],
            cwd=work,
            stdout=subprocess.DEVNULL,
        )
        url = ""
        while not url or scrape(url, "").count(b"xpurun_collective_duration_seconds_sum") < RANKS:
            time.sleep(0.5)
            try:
                url = json.loads((out / "run.json").read_text())["metrics"]
            except (OSError, ValueError):
                pass
        time.sleep(3)
        for accept in ("text/plain", "application/openmetrics-text"):
            times, before = [], cpu_s(job.pid)
            for _ in range(count):
                begun = time.perf_counter()
                size = len(scrape(url, accept))
                times.append((time.perf_counter() - begun) * 1e3)
            spent = (cpu_s(job.pid) - before) / count * 1e3
            print(
                f"{accept}: {statistics.median(times):.2f} ms ({min(times):.2f} to {max(times):.2f}), {size / 1024:.0f}"
                f" KiB, supervisor {spent:.2f} ms of CPU, {count} scrapes"
            )
        (pathlib.Path(work) / "end").touch()
        job.wait()


if __name__ == "__main__":
    os.environ.pop("XPURUN_TIMING", None)
    main()
