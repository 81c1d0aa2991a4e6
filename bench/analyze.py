"""Time and memory of `xpurun analyze` on a made run of many ranks.

usage: analyze.py BUILD [--ranks 1024] [--steps 1000] [--repeat 3]

The spans (data, forward, backward, all_reduce, optimizer; one sample of the load per step) are written first, by
tests/support/speed_tool (not timed). From the middle of the run on, the last rank loads its data 25 ms longer.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="xpurun-bench-") as folder:
        run = pathlib.Path(folder) / "run"
        make_run = SOURCE / "tests/support/make_run.py"
        subprocess.run([sys.executable, make_run, run, "--ranks", "2", "--kind", "finished"], check=True)
        speed_tool = args.build / "tests/unit/report/speed/speed_tool"
        subprocess.run([speed_tool, run, str(args.ranks), str(args.steps), "input"], check=True)
        size = sum(path.stat().st_size for path in run.glob("ranks/*/*.xsp"))
        print(f"{args.ranks} ranks, {args.steps} steps, {size >> 20} MiB of spans")
        for _ in range(args.repeat):
            start = time.monotonic()
            with subprocess.Popen([args.build / "commands/xpurun", "analyze", "--format", "json", run],
                                  stdout=subprocess.PIPE) as process:
                told = json.loads(process.stdout.read())
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = status
            print(f"{time.monotonic() - start:.2f} s, {used.ru_utime + used.ru_stime:.2f} s CPU, "
                  f"{used.ru_maxrss >> 10} MiB: {told['sentence']}")


if __name__ == "__main__":
    main()
