#!/usr/bin/env python3
"""Time and memory of `xpurun timeline` for many ranks.

usage: bench/timeline.py BUILD [RANKS] [EVENTS]

BUILD is a build directory with optimisation (only commands/xpurun is needed). Makes event files of RANKS (1024) ranks
on RANKS/8 hosts with EVENTS (10000) events each in a temporary directory, then writes a Perfetto trace plain and with
gzip, and the JSON of 8 ranks, three times each. Prints the median of the seconds, CPU seconds, events per second, peak
memory of the process, and the size of input and output per event.
"""

import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support"))
import make_events  # noqa: E402

ROUNDS = 3
EVENTS_A_STEP = 10


def make_input(folder, ranks, steps):
    # The first rank of each host's group comes late to every reduce-scatter.
    late = [make_events.training_events(steps, late_ns=n) for n in (0, 50_000)]
    for rank in range(ranks):
        make_events.write_rank(folder / "ranks" / str(rank) / "events-1.xev", rank, ranks, late[rank % 8 == 0],
                               hosts=max(1, ranks // 8), clock_error_ns=1_000_000)


def measure(command, out):
    """(seconds, CPU seconds, MiB, bytes written)"""
    shutil.rmtree(out, ignore_errors=True)
    out.unlink(missing_ok=True)
    begun = time.perf_counter()
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True)
    told = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - begun
    assert process.returncode == 0 and "differ by 0.0 us" in told, told
    size = out.stat().st_size if out.is_file() else sum(f.stat().st_size for f in out.iterdir())
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, size


def main():
    xpurun = os.path.abspath(sys.argv[1] + "/commands/xpurun")
    ranks, events = (int(v) for v in sys.argv[2:] + ["1024", "10000"][len(sys.argv) - 2:])
    with tempfile.TemporaryDirectory(prefix="xpurun-bench-") as name:
        folder = pathlib.Path(name)
        make_input(folder / "run", ranks, events // EVENTS_A_STEP)
        size = sum(f.stat().st_size for f in folder.rglob("*.xev"))
        print(f"{ranks} ranks, {events} events each; input {size / ranks / events:.1f} bytes an event")
        for title, options, shown in (("Perfetto", [], ranks), ("Perfetto, gzip", ["--compress"], ranks),
                                      ("JSON", ["--format", "chrome", "--ranks", "0-7"], 8)):
            out = folder / "out"
            rounds = [measure([xpurun, "timeline", *options, "-o", out, folder / "run"], out) for _ in range(ROUNDS)]
            seconds, cpu, memory, written = (statistics.median(values) for values in zip(*rounds))
            count = shown * events
            print(f"{title}: {seconds:.2f} s, {cpu:.2f} s CPU, {count / seconds / 1e6:.2f} million events/s"
                  f" ({count / cpu / 1e6:.2f} a core), {memory:.0f} MiB, {written / count:.0f} bytes an event")


if __name__ == "__main__":
    main()
