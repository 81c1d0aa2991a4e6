#!/usr/bin/env python3
"""Time until the stacks of several processes are dumped, symbolised, merged and drawn, with an empty symbol
cache (cold) and a filled one (warm), and memory of a dump helper.

usage: bench/stack_symbols.py BUILD_DIR [PROCESSES] [THREADS] [ROUNDS] [SYMBOLS]

The processes are Python with torch; each also waits in a library with SYMBOLS symbols (default 550000, as many as
the largest library of a torch wheel has; Debian's is stripped). gdb on one of them for comparison.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from bench_support import read_stacks

PYTHON = os.environ.get("XPURUN_BENCH_PYTHON", "/usr/bin/python3")

TARGET = """
import ctypes, sys, threading, time
try:
    import torch
except ImportError:
    pass
big = ctypes.CDLL(sys.argv[2])
def work(n):
    if n:
        return sorted([n], key=lambda x: work(n - 1)) if n % 10 == 0 else work(n - 1)
    time.sleep(10000)
for i in range(int(sys.argv[1])):
    threading.Thread(target=work, args=(25,), daemon=True).start()
time.sleep(1)
print("ready", flush=True)
big.wait_in_big()
"""


def big_library(folder, symbols):
    source, library = os.path.join(folder, "big.s"), os.path.join(folder, "libbig.so")
    with open(source, "w", encoding="ascii") as f:
        f.write(".text\n")
        for i in range(symbols):
            word = f"kernel_{i:06d}_with_a_long_name_as_in_libtorch_cpu_and_others"
            name = f"_ZN2at6native{len(word)}{word}Ev"
            f.write(
                f".type {name},@function\n{name}:\n.cfi_startproc\nret\n.p2align 4\n.cfi_endproc\n.size"
                f" {name},.-{name}\n"
            )
        f.write(".globl wait_in_big\n.type wait_in_big,@function\nwait_in_big:\n.cfi_startproc\nsub $8,%rsp\n"
                ".cfi_adjust_cfa_offset 8\ncall pause@plt\nadd $8,%rsp\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n"
                ".size wait_in_big,.-wait_in_big\n")
    subprocess.run(["as", "-o", source + ".o", source], check=True)
    subprocess.run(["ld", "-shared", "--build-id", "--eh-frame-hdr", "-o", library, source + ".o", "-lc"], check=True)
    return library


def dump_all(stackdump, pids, folder, env):
    """Seconds from the common start to the last end, spread of the stops in ms, largest resident size in MiB."""
    helpers = []
    for rank, pid in enumerate(pids):
        helpers.append(
            subprocess.Popen(
                [
                    stackdump,
                    "--pid",
                    str(pid),
                    "--out",
                    f"{folder}/{rank}.stacks.json",
                    "--rank",
                    str(rank),
                    "--role",
                    "rank",
                    "--barrier",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=env,
            )
        )
    for h in helpers:
        h.stdout.readline()
    begun = time.perf_counter()
    for h in helpers:
        h.stdin.close()
    stops, peak = [], 0
    for h in helpers:
        stops.append(int(h.stdout.readline().split()[1]))
        last = h.stdout.read().decode()
        if "done ok" not in last:
            print("not ok:", last.strip())
        _, _, usage = os.wait4(h.pid, 0)
        h.returncode = 0
        peak = max(peak, usage.ru_maxrss)
    return time.perf_counter() - begun, (max(stops) - min(stops)) / 1e6, peak / 1024


def line(name, values, unit):
    values = sorted(values)
    return (
        f"{name}: median {statistics.median(values):.3f} {unit}, min {values[0]:.3f}, max {values[-1]:.3f}"
        f" ({len(values)})"
    )


def main():
    build = os.path.abspath(sys.argv[1])
    processes, threads, rounds, symbols = (
        int(v) for v in sys.argv[2:] + ["8", "100", "5", "550000"][len(sys.argv) - 2 :]
    )
    stackdump, xpurun = f"{build}/stackdump/xpurun-stackdump", f"{build}/commands/xpurun"
    work = tempfile.mkdtemp(prefix="xpurun-bench-")
    targets = []
    try:
        library = os.environ.get("XPURUN_BENCH_LIBRARY") or big_library(work, symbols)
        for _ in range(processes):
            targets.append(
                subprocess.Popen([PYTHON, "-c", TARGET, str(threads), library], stdout=subprocess.PIPE, text=True)
            )
        for t in targets:
            t.stdout.readline()
        time.sleep(1)
        pids = [t.pid for t in targets]
        for temperature in ("cold", "warm"):
            dumped, total, spread, memory = [], [], [], []
            for i in range(rounds):
                cache = f"{work}/cache" if temperature == "warm" else f"{work}/cache{i}"
                env = {**os.environ, "XDG_CACHE_HOME": cache}
                if temperature == "warm" and i == 0:
                    dump_all(stackdump, pids, work, env)
                folder = f"{work}/{temperature}{i}"
                os.mkdir(folder)
                begun = time.perf_counter()
                seconds, apart, peak = dump_all(stackdump, pids, folder, env)
                subprocess.run([xpurun, "stacks", "--quiet", "--out", f"{folder}/merged", folder], check=True)
                total.append(time.perf_counter() - begun)
                dumped.append(seconds)
                spread.append(apart)
                memory.append(peak)
            stacks = read_stacks(f"{folder}/0.stacks.json")
            named = any(f["func"] == "wait_in_big" for t in stacks["threads"] for f in t["frames"])
            print(f"{temperature}: {processes} processes, {len(stacks['threads'])} threads and "
                  f"{sum(len(t['frames']) for t in stacks['threads'])} frames each, named: {named}")
            print(" ", line("released to last file", dumped, "s"))
            print(" ", line("started to drawn", total, "s"))
            print(" ", line("stops apart", spread, "ms"))
            print(" ", line("largest dumper", memory, "MiB"))
        if shutil.which("gdb"):
            begun = time.perf_counter()
            subprocess.run(
                [
                    "gdb",
                    "-nx",
                    "-q",
                    "-batch",
                    "-iex",
                    "set debuginfod enabled off",
                    "-p",
                    str(pids[0]),
                    "-ex",
                    "thread apply all bt 256",
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
            print(f"gdb on one process: {time.perf_counter() - begun:.2f} s")
    finally:
        for t in targets:
            t.kill()
            t.wait()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
