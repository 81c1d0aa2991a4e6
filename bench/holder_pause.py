#!/usr/bin/env python3
"""What the names of holders cost a rank's pause in a dump: a process whose threads wait for locks that others hold,
with a lock of multiprocessing, an event, a queue and 200 tasks of asyncio, beside one with the same threads asleep.

usage: bench/holder_pause.py [--build DIR] [--dumps N] [--threads N]

Takes dumps of both in turn. Exits 1 if the median pause with holders is 1 ms or more above the other one.
"""

import os
import statistics
import subprocess
import sys
import tempfile

from bench_support import PYTHON, arguments, helper_of, read_stacks, spread

MOST_MS = 1.0
TARGET = """
import asyncio, multiprocessing as mp, queue, sys, threading, time
holders, count = sys.argv[1] == "holders", int(sys.argv[2])
lock, event, items, shared = threading.Lock(), threading.Event(), queue.Queue(), mp.Lock()
def stand(n, wait):
    if n:
        return stand(n - 1, wait)
    wait()
def sleep():
    time.sleep(100000)
def hold():
    with lock, shared:
        sleep()
def acquire():
    with lock:
        pass
def acquire_shared():
    with shared:
        pass
waits = [acquire, acquire_shared, event.wait, items.get] if holders else [sleep]
threading.Thread(target=stand, args=(20, hold), daemon=True).start()
time.sleep(0.2)
for i in range(count):
    threading.Thread(target=stand, args=(20, waits[i % len(waits)]), daemon=True).start()
async def take(lock):
    async with lock:
        await asyncio.sleep(100000)
async def tasks():
    lock = asyncio.Lock()
    await asyncio.gather(*(take(lock) for _ in range(200)))
if holders:
    threading.Thread(target=asyncio.run, args=(tasks(),), daemon=True).start()
else:
    threading.Thread(target=sleep, daemon=True).start()
time.sleep(1)
print("ready", flush=True)
stand(20, waits[0])
"""


def pause_ms(program, pid, out):
    subprocess.run([program, "--pid", str(pid), "--out", out], check=True, stdout=subprocess.DEVNULL)
    return read_stacks(out)["pause_ns"] / 1e6


def main():
    parser = arguments(__doc__)
    parser.add_argument("--dumps", type=int, default=40)
    parser.add_argument("--threads", type=int, default=8)
    args = parser.parse_args()
    kinds = ("asleep", "holders")
    command = [PYTHON, "-c", TARGET]
    targets = {kind: subprocess.Popen([*command, kind, str(args.threads)], stdout=subprocess.PIPE, text=True)
               for kind in kinds}
    pauses = {kind: [] for kind in kinds}
    try:
        for target in targets.values():
            target.stdout.readline()
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "x.stacks.json")
            for _ in range(args.dumps):
                for kind, target in targets.items():
                    pauses[kind].append(pause_ms(helper_of(args), target.pid, out))
                    stacks = read_stacks(out)
            named = sum(1 for t in stacks["threads"] if t.get("lock")), len(stacks.get("tasks", []))
    finally:
        for target in targets.values():
            target.kill()
            target.wait()
    for kind in kinds:
        print(f"{kind}: paused {spread(pauses[kind], 'ms')}")
    more = statistics.median(pauses["holders"]) - statistics.median(pauses["asleep"])
    print(f"holders named of {named[0]} threads and {named[1]} tasks; {more:+.2f} ms")
    return 1 if more >= MOST_MS else 0


if __name__ == "__main__":
    sys.exit(main())
