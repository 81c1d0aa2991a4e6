#!/usr/bin/env python3
"""Memory of xpurun-stackdump for a process that maps large libraries.

usage: bench/helper_memory.py build/stackdump/xpurun-stackdump [THREADS] [DIRECTORY...]

The target is a Python program with THREADS (150) threads that has loaded every loadable shared library of the
directories (/usr/local/cuda/lib64). Prints the target's maps, the helper's peak of resident memory and its time,
without and with a filled symbol cache. Exits 1 above 200 MiB.
"""

import glob
import os
import resource
import subprocess
import sys
import tempfile
import time

MOST_MIB = 200

TARGET = """
import ctypes, sys, threading, time
loaded = 0
for path in sys.argv[2:]:
    try:
        ctypes.CDLL(path)
        loaded += 1
    except OSError:
        pass
def work(n):
    return sorted([n], key=lambda x: work(n - 1)) if n else time.sleep(10000)
for i in range(int(sys.argv[1])):
    threading.Thread(target=work, args=(10,), daemon=True).start()
time.sleep(1)
print(loaded, flush=True)
time.sleep(10000)
"""


def main():
    program = os.path.abspath(sys.argv[1])
    threads = sys.argv[2] if len(sys.argv) > 2 else "150"
    directories = sys.argv[3:] or ["/usr/local/cuda/lib64"]
    libraries = sorted({os.path.realpath(p) for d in directories for p in glob.glob(f"{d}/*.so")})
    target = subprocess.Popen(
        ["/usr/bin/python3", "-c", TARGET, threads, *libraries], stdout=subprocess.PIPE, text=True
    )
    try:
        loaded = target.stdout.readline().strip()
        with open(f"/proc/{target.pid}/maps", encoding="utf-8") as f:
            maps = f.read().splitlines()
        files = {line.split()[5] for line in maps if len(line.split()) > 5 and line.split()[5].startswith("/")}
        size = sum(os.path.getsize(p) for p in files)
        print(
            f"target: {loaded} libraries loaded, {len(files)} files of {size / 2**20:.0f} MiB mapped, {threads} threads"
        )
        with tempfile.TemporaryDirectory() as d:
            env = os.environ | {"XDG_CACHE_HOME": d}
            for what in ("empty symbol cache", "filled symbol cache"):
                begun = time.perf_counter()
                subprocess.run([program, "--pid", str(target.pid), "--out", f"{d}/x"], check=True, env=env,
                               stdout=subprocess.DEVNULL)
                peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
                print(f"{what}: {time.perf_counter() - begun:.2f} s; most resident memory so far {peak:.0f} MiB")
    finally:
        target.kill()
    return 1 if peak > MOST_MIB else 0


if __name__ == "__main__":
    sys.exit(main())
