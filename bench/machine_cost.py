#!/usr/bin/env python3
"""CPU time of the helper that reads what the kernel counts about the host, and of its looks at who has the memory.

usage: bench/machine_cost.py XPURUN [SECONDS]

Eight ranks, each with 16 threads: in a control group with room, and in one whose memory fills slowly until it is nearly
full, so that the helper looks again and again at who has it (with two workers a rank). Nanoseconds of
/proc/PID/task/*/schedstat, from 10 s after the start on, in % of one core, for each rank. As root with control groups
of version 1; without them only the first.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

RANKS = 8
LIMIT_MIB = 1200
RANK = r"""
import os, sys, threading, time
for _ in range(15):
    threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
fill = float(sys.argv[1])
for worker in range(2 if fill else 0):
    if os.fork() == 0:
        time.sleep(1e6)
begin = time.monotonic()
held = []
while True:
    if fill and len(held) < fill * min(1, (time.monotonic() - begin) / float(sys.argv[2])):
        held.append(b"x" * (1 << 20))
    time.sleep(0.02)
"""


def threads_ns(pid):
    """By thread."""
    out = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        out[task.name] = int((task / "schedstat").read_text().split()[0])
    return out


def helper_of(pid):
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if b"--watch-machine" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes():
            return int(child)
    return None


def measure(xpurun, seconds, group, fill):
    with tempfile.TemporaryDirectory() as work:
        script = pathlib.Path(work, "rank.py")
        script.write_text(RANK)
        enter = f"echo $$ > {group}/tasks; " if group else ""
        run = f"WORLD_SIZE={RANKS} {sys.executable} {script} {fill} {seconds + 10} &"
        job = enter + " ".join(f"RANK={r} LOCAL_RANK={r} {run}" for r in range(RANKS)) + " wait"
        p = subprocess.Popen([xpurun, "--out", f"{work}/run", "--hang-timeout", "10000", "--", "bash", "-c", job],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            time.sleep(10)
            helper = helper_of(p.pid)
            begin, before = time.monotonic(), threads_ns(helper)
            time.sleep(seconds)
            after, took = threads_ns(helper), time.monotonic() - begin
            spent = {name: (ns - before.get(name, 0)) / 1e9 / took for name, ns in after.items()}
        finally:
            os.killpg(p.pid, 15)
            p.wait()
        main = spent.pop(str(helper))
        return main, sum(spent.values())


def main():
    xpurun = os.path.abspath(sys.argv[1])
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    print(f"{'':24} {'counters, % a rank':>20} {'looks at memory, % a rank':>27}")
    group = pathlib.Path("/sys/fs/cgroup/memory/xpurun-cost")
    for name, fill in (("room", 0), ("memory fills", LIMIT_MIB * 0.8 / RANKS)):
        inside = None
        if fill:
            try:
                group.mkdir(exist_ok=True)
                (group / "memory.limit_in_bytes").write_text(str(LIMIT_MIB << 20))
                inside = group
            except OSError:
                print("no control group can be made here")
                break
        main_share, memory_share = measure(xpurun, seconds, inside, fill)
        print(f"{name:24} {100 * main_share / RANKS:20.4f} {100 * memory_share / RANKS:27.4f}", flush=True)
    for _ in range(50):
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.1)


if __name__ == "__main__":
    main()
