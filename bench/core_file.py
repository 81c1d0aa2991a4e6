#!/usr/bin/env python3
"""Time and memory to show a core file: Python with torch loaded and many threads, written by gcore.

usage: bench/core_file.py [--build DIR] [--threads N] [--rounds N] [--pystack PROGRAM]

Prints the size of the core file, and the seconds and the peak memory of xpurun-stackdump and of `xpurun stacks --core`;
with --pystack also those of `pystack core --native-all`, on the same file.
"""

import os
import subprocess
import tempfile
import time

from bench_support import PYTHON, arguments, helper_of, program_of, read_stacks, spread, target_text


def run(command):
    """Seconds, and peak memory in MiB."""
    begun = time.perf_counter()
    with open(os.devnull, "w") as nothing:
        process = subprocess.Popen(command, stdout=nothing, stderr=nothing)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} failed with status {process.returncode}")
    return time.perf_counter() - begun, usage.ru_maxrss / 1024


def measure(name, command, rounds):
    results = [run(command) for _ in range(rounds)]
    print(f"{name}: {spread([s for s, _ in results], 's')}, peak {max(m for _, m in results):.0f} MiB", flush=True)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--threads", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pystack")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        target = subprocess.Popen([PYTHON, "-c", target_text(), str(args.threads)], stdout=subprocess.PIPE, text=True)
        try:
            what = target.stdout.readline().strip()
            subprocess.run(["gcore", "-o", f"{folder}/core", str(target.pid)], check=True, capture_output=True)
        finally:
            target.kill()
            target.wait()
        core, out = f"{folder}/core.{target.pid}", f"{folder}/x.stacks.json"
        helper = [helper_of(args), "--from-core", core, "--out", out]
        first = run([*helper, "--symbol-cache", "none"])
        threads = read_stacks(out)["threads"]
        print(f"target: {what}, {len(threads)} threads, {sum(len(t['frames']) for t in threads)} frames, "
              f"core file {os.path.getsize(core) / 2**20:.0f} MiB")
        print(f"first run: {first[0]:.2f} s, peak {first[1]:.0f} MiB")
        measure("xpurun-stackdump, no symbol cache", [*helper, "--symbol-cache", "none"], args.rounds)
        measure("xpurun-stackdump", helper, args.rounds)
        measure("xpurun stacks --core, text", [program_of(args), "stacks", "--core", core], args.rounds)
        if args.pystack:
            measure("pystack core --native-all", [args.pystack, "core", core, PYTHON, "--native-all"], args.rounds)


if __name__ == "__main__":
    main()
