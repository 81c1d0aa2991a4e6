#!/usr/bin/env python3
"""Growth of a run directory and of the supervisor's memory under a storm of forks and starts, with all defaults.

usage: growth.py [--build DIR] [--minutes 5] [--ranks 8]

Each rank is Python: it works in steps of 20 ms, forks a child each step, starts a program each tenth step, and a Python
program each hundredth. Prints the size of the run directory and the memory of xpurun and its writer each half minute,
then the growth of the second half of the time, extrapolated to 30 days, and the files that have grown in it.
"""

import pathlib
import subprocess
import sys
import tempfile
import time

import bench_support

RANK = """
import os, subprocess, sys, time
end, step = time.monotonic() + float(sys.argv[1]), 0
def work(): sum(range(20000)); time.sleep(0.02)
while time.monotonic() < end:
    work()
    step += 1
    child = os.fork()
    if child == 0: os._exit(step % 2)
    os.waitpid(child, 0)
    if step % 10 == 0: subprocess.run(["true"])
    if step % 100 == 0: subprocess.run([sys.executable, "-c", "import sys; sys.exit(3)"])
"""
LAUNCH = """
import os, subprocess, sys
n = int(sys.argv[1])
ranks = [subprocess.Popen([sys.executable, *sys.argv[2:]], env={**os.environ, "RANK": str(i), "LOCAL_RANK": str(i),
         "WORLD_SIZE": str(n)}) for i in range(n)]
sys.exit(max(r.wait() for r in ranks))
"""


def sizes(run):
    out = {}
    for path in run.rglob("*"):
        if path.is_file():
            out[str(path.relative_to(run))] = path.stat().st_size
    return out


def memory_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


def main():
    parser = bench_support.arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--ranks", type=int, default=8)
    args = parser.parse_args()
    seconds = 60 * args.minutes
    with tempfile.TemporaryDirectory(prefix="xpurun-growth-") as work:
        run = pathlib.Path(work) / "run"
        job = subprocess.Popen([bench_support.program_of(args), "-q", "--out", run, "--", bench_support.PYTHON, "-c",
                                LAUNCH, str(args.ranks), "-c", RANK, str(seconds)])
        begun, looks = time.monotonic(), []
        while time.monotonic() - begun < seconds - 10:
            time.sleep(min(30, seconds / 10))
            writer = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()[0]
            looks.append((time.monotonic() - begun, sizes(run), memory_kib(job.pid), memory_kib(writer)))
            at, files, own, writers = looks[-1]
            print(f"{at:.0f} s: {sum(files.values())} bytes in {len(files)} files, xpurun {own} KiB, "
                  f"writer {writers} KiB", flush=True)
        middle, last = looks[len(looks) // 2], looks[-1]
        per_day = 86400 / (last[0] - middle[0])
        grown = {name: size - middle[1].get(name, 0) for name, size in last[1].items()}
        print(f"30 days at the rate of the second half: {30 * per_day * sum(grown.values()) / 1e6:.1f} MB of disk, "
              f"{30 * per_day * (last[2] - middle[2]) / 1024:.1f} MiB of memory, if nothing had a bound")
        for name, size in sorted(grown.items(), key=lambda one: -one[1])[:8]:
            if size > 0:
                print(f"  {name}: {last[1][name]} bytes, {30 * per_day * size / 1e6:.1f} MB in 30 days if unbounded")
        return job.wait()


if __name__ == "__main__":
    sys.exit(main())
