#!/usr/bin/env python3
"""Who pre-empted a rank: the share that xpurun found against the one of `perf sched` in the same run.

usage: bench/preempted.py XPURUN [ROUNDS]

One rank spins on CPU 1 beside programs that spin there too, with different priorities. perf records all context
switches of that CPU; its share counts from the first to the last time that xpurun has seen the program. Prints both
shares and their difference. As root: by context switches. As another user, xpurun looks at /proc, while perf stays
root: XPURUN_PREFIX="setpriv --reuid 65534 --clear-groups".
"""

import json
import os
import pathlib
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time

SECONDS = 26
SPIN = "import ctypes, os, sys\nctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)\n" \
       "os.sched_setaffinity(0, {1})\nos.nice(int(sys.argv[2]))\nwhile True:\n    pass\n"
RANK = f"import os, time\nos.sched_setaffinity(0, {{1}})\nend = time.monotonic() + {SECONDS}\n" \
       "while time.monotonic() < end:\n    pass\n"
LINE = re.compile(r"^\s*([0-9.]+) \[0*([0-9]+)\]\s+(.+?)\[([0-9]+)(?:/([0-9]+))?\]\s+([0-9.]+)\s+([0-9.]+)\s+([0-9.]+)")


def perf_share(data, name, begin, end):
    """Of CPU 1 between two times of the monotonic clock."""
    text = subprocess.run(["perf", "sched", "timehist", "-i", data], capture_output=True, text=True).stdout
    ran = 0.0
    for line in text.splitlines():
        if (found := LINE.match(line)) and found.group(3) == name:
            until = float(found.group(1))
            since = until - float(found.group(8)) / 1000
            ran += max(0.0, min(until, end) - max(since, begin))
    return ran / (end - begin)


def measure(xpurun, prefix, nice):
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o777)
        run, data = f"{work}/run", f"{work}/perf.data"
        other = subprocess.Popen([sys.executable, "-c", SPIN, "spinner", str(nice)])
        perf = subprocess.Popen(["perf", "sched", "record", "-k", "CLOCK_MONOTONIC", "-C", "1", "-o", data],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            subprocess.run([*prefix, xpurun, "--out", run, "--", sys.executable, "-c", RANK], cwd=work,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
                           env={**os.environ, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"})
        finally:
            other.kill()
            other.wait()
            perf.send_signal(signal.SIGINT)
            perf.wait()
        offset = time.time() - time.monotonic()
        machine = json.loads((pathlib.Path(run) / "machine.json").read_text())
        found = [i for i in machine.get("intruders", []) if i["command"] == "spinner"]
        if not found:
            return None
        ours = found[0]["cpu_s"] / found[0]["watched_s"] / found[0].get("cpus", 1)
        begin, end = (found[0][f"{what}_wall_ns"] / 1e9 - offset for what in ("begin", "end"))
        return ours, perf_share(data, "spinner", begin, end), found[0]["watched_s"], end - begin


def main():
    xpurun = os.path.abspath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    prefix = shlex.split(os.environ.get("XPURUN_PREFIX", ""))
    differences = []
    for nice in (0, 3, 6):
        for _ in range(rounds):
            result = measure(xpurun, prefix, nice)
            if result is None:
                print(f"nice {nice}: xpurun has not seen the program")
                continue
            ours, theirs, watched, span = result
            differences.append(abs(ours - theirs))
            print(f"nice {nice}: xpurun {100 * ours:.1f} %, perf sched {100 * theirs:.1f} %, difference "
                  f"{100 * (ours - theirs):+.1f} points ({watched:.0f} of {span:.0f} s watched)", flush=True)
    if differences:
        print(f"largest difference {100 * max(differences):.1f} points, median "
              f"{100 * statistics.median(differences):.1f}")


if __name__ == "__main__":
    main()
