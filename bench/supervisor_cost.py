#!/usr/bin/env python3
"""Cost of watching: CPU time and memory of the supervisor while 8 ranks train.

usage: bench/supervisor_cost.py XPURUN [SECONDS]

The ranks are Python processes with a launcher's environment, some depth of stack and 16 threads each. Prints the
supervisor's CPU time as a share of one core and its largest resident size, and the CPU time of the helper that reads
what the kernel counts about the host: for the default timeout, for a short timeout with the shortest polling
interval, and for the same with ranks that stand still and wait for their threads, which the supervisor then watches
too.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

RANK = r"""
import threading, time
for _ in range(15):
    threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
def step(depth, number):
    if depth:
        return step(depth - 1, number)
    time.sleep(0.01)
number = 0
while True:
    number += MOVES
    step(20, number)
"""


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def host_helper(pid):
    """The child that reads the host's counters; None while there is none."""
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if b"--watch-machine" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes():
            return int(child)
    return None


def measure(xpurun, timeout, moves, seconds):
    with tempfile.TemporaryDirectory() as work:
        script = "for r in 0 1 2 3 4 5 6 7; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=8 %s -c '%s' & done; wait" % (
            sys.executable, RANK.replace("MOVES", str(moves)))
        p = subprocess.Popen([xpurun, "--out", f"{work}/run", "--hang-timeout", timeout, "--", "bash", "-c", script],
                             start_new_session=True, stderr=subprocess.DEVNULL)
        try:
            time.sleep(6)  # after the start, when discovery is frequent
            helper = host_helper(p.pid)
            before, begun = [cpu_seconds(pid) for pid in (p.pid, helper)], time.monotonic()
            time.sleep(seconds)
            took = time.monotonic() - begun
            shares = [(cpu_seconds(pid) - b) / took for pid, b in zip((p.pid, helper), before)]
            return *shares, peak_mib(p.pid)
        finally:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()


def main():
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 30
    for timeout, moves in (("300s", 1), ("5s", 1), ("5s", 0)):
        share, helper, peak = measure(sys.argv[1], timeout, moves, seconds)
        print(f"--hang-timeout {timeout}, {'moving' if moves else 'still'}: {100 * share:.2f} % of one core, "
              f"{peak:.1f} MiB at most; host helper {100 * helper:.2f} %")


if __name__ == "__main__":
    main()
