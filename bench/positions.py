#!/usr/bin/env python3
"""Cost of one reading of a process's position for the supervisor.

usage: bench/positions.py BUILD [LOOKS]

BUILD is a build directory. For a process that is 26 functions deep, and for a script with 300 variables at its top
level: median, minimum and maximum of five runs of LOOKS readings each, in CPU time of the reader.
"""

import pathlib
import statistics
import subprocess
import sys

FUNCTIONS = """
import time
def deep(n):
    a, b, c = n, n + 1000, [n]
    if n:
        return deep(n - 1)
    time.sleep(1000)
print("ready", flush=True)
deep(25)
"""
VARIABLES = """
import time
for n in range(300):
    globals()[f"variable_{n}"] = 1000 + n if n % 2 else [n]
print("ready", flush=True)
time.sleep(1000)
"""


def cpu_us(probe, pid, looks):
    done = subprocess.run([probe, str(pid), str(looks), "0"], capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[-1].split()[1])


def main():
    probe = pathlib.Path(sys.argv[1], "tests/unit/stackdump/position_probe").resolve()
    looks = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    for what, script in (("26 functions", FUNCTIONS), ("300 variables at the top level", VARIABLES)):
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            # Without the one-time cost of finding the interpreter.
            times = [(cpu_us(probe, process.pid, looks + 1) - cpu_us(probe, process.pid, 1)) / looks for _ in range(5)]
            process.kill()
        print(f"{what}: {statistics.median(times):.0f} us a look ({min(times):.0f} to {max(times):.0f})")


if __name__ == "__main__":
    main()
