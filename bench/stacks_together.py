#!/usr/bin/env python3
"""Eight processes of 100 threads each, dumped together by `xpurun stacks --pid`: time between the snapshots,
pause of each process, time until everything is merged and drawn, and memory of a helper.

usage: bench/stacks_together.py [--build DIR] [--processes N] [--threads N] [--rounds N] [--drop-caches]

Warm: the second and later rounds. Cold: a fresh symbol cache for each round; with --drop-caches (root) the page cache
is empty as well.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time

from bench_support import PYTHON, arguments, helper_of, program_of, read_stacks, spread, target_text

SPREAD_MS, WARM_S, COLD_S, HELPER_MIB = 20, 1.0, 3.0, 200


def dump(program, pids, out, cache):
    shutil.rmtree(out, ignore_errors=True)
    begun = time.perf_counter()
    subprocess.run(
        [program, "stacks", "--pid", ",".join(pids), "--out", out, "--quiet", "--deadline", "2s"],
        check=True,
        env={**os.environ, "XDG_CACHE_HOME": cache},
    )
    took = time.perf_counter() - begun
    records = []
    for name in os.listdir(out):
        if name.endswith(".stacks.json"):
            records.append(read_stacks(os.path.join(out, name)))
    stops = [r["mono_ns"] for r in records]
    frames = sum(len(t["frames"]) for r in records for t in r["threads"])
    return took, (max(stops) - min(stops)) / 1e6, [r["pause_ns"] / 1e6 for r in records], frames


def main():
    parser = arguments(__doc__)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--threads", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--drop-caches", action="store_true")
    args = parser.parse_args()
    program, helper = program_of(args), helper_of(args)
    targets = [subprocess.Popen([PYTHON, "-c", target_text(), str(args.threads - 1)], stdout=subprocess.PIPE, text=True)
               for _ in range(args.processes)]
    try:
        what = [t.stdout.readline().strip() for t in targets][0]
        pids = [str(t.pid) for t in targets]
        print(f"{args.processes} processes, {args.threads} threads each, {what}; {os.cpu_count()} cores, "
              f"load {os.getloadavg()[0]:.1f}")
        with tempfile.TemporaryDirectory() as folder:
            out, cache = os.path.join(folder, "out"), os.path.join(folder, "cache")
            colds = []
            for _ in range(args.rounds):
                shutil.rmtree(cache, ignore_errors=True)
                if args.drop_caches:
                    subprocess.run(["sync"], check=True)
                    with open("/proc/sys/vm/drop_caches", "w") as f:
                        f.write("3\n")
                colds.append(dump(program, pids, out, cache)[0])
            warm = [dump(program, pids, out, cache) for _ in range(args.rounds)]
            child = subprocess.Popen([helper, "--pid", pids[0], "--out", os.path.join(folder, "x.stacks.json")],
                                     stdout=subprocess.DEVNULL, env={**os.environ, "XDG_CACHE_HOME": cache})
            memory = os.wait4(child.pid, 0)[2].ru_maxrss / 1024
        print(f"frames             {warm[0][3]}")
        print(f"between the stops  {spread([w[1] for w in warm], 'ms')}, goal {SPREAD_MS}")
        print(f"paused             {spread([p for w in warm for p in w[2]], 'ms')}")
        print(f"everything, warm   {spread([w[0] for w in warm], 's')}, goal {WARM_S}")
        print(f"everything, cold   {spread(colds, 's')}, goal {COLD_S}")
        print(f"helper's memory    {memory:.0f} MiB, goal {HELPER_MIB}")
    finally:
        for t in targets:
            t.kill()
            t.wait()


if __name__ == "__main__":
    sys.exit(main())
