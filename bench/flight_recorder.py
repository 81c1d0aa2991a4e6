"""Time, CPU time and memory of `xpurun report` over a directory of Flight Recorder dumps.

usage: flight_recorder.py XPURUN [--ranks N,N...] [--entries N] [--repeat N]

The dumps are two files with many names: one rank called another operation than all the rest. The verdict must name it.
"""

import argparse
import json
import os
import pathlib
import pickle
import pickletools
import resource
import statistics
import subprocess
import sys
import tempfile
import time

MAKER = pathlib.Path(__file__).resolve().parent.parent / "tests/data/flight_recorder/make_dumps.py"


def make_dumps(place, ranks, entries):
    """The number of the rank that stands out."""
    two = place / "two"
    subprocess.run([sys.executable, MAKER, two, "mismatch", "--ranks", "2", "--calls", str(entries - 1)], check=True)
    for path in sorted(two.iterdir()):
        dump = pickle.loads(path.read_bytes())
        dump["pg_config"]["0"]["ranks"] = str(list(range(ranks)))
        path.write_bytes(pickletools.optimize(pickle.dumps(dump, protocol=2)))
    (place / "dumps").mkdir()
    other = min(7, ranks - 1)
    for rank in range(ranks):
        os.link(two / f"nccl_trace_rank_{int(rank == other)}", place / "dumps" / f"nccl_trace_rank_{rank}")
    return other


def measure(program, ranks, entries, repeat):
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        other = make_dumps(place, ranks, entries)
        size = sum(path.stat().st_size for path in (place / "dumps").iterdir()) >> 20
        seconds, cpu = [], []
        for _ in range(repeat):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            begun = time.monotonic()
            told = subprocess.run([program, "report", "--format", "json", place / "dumps"], check=True,
                                  capture_output=True).stdout
            seconds.append(time.monotonic() - begun)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        verdict = json.loads(told)
        culprits = verdict["ranks"]
        # With two ranks there is no minority.
        expected = [other] if ranks > 2 else culprits
        if culprits != expected or verdict["id"] != "hang.mismatch":
            sys.exit(f"{ranks} ranks: wrong verdict: {verdict['id']}, ranks {culprits}")
        print(f"{ranks} ranks, {entries} entries each, {size} MiB: {statistics.median(seconds):.2f} s "
              f"({min(seconds):.2f} to {max(seconds):.2f}), CPU {statistics.median(cpu):.2f} s, "
              f"at most {after.ru_maxrss >> 10} MiB; {verdict['sentence'][:100]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("xpurun")
    parser.add_argument("--ranks", default="2,8,64,256,1024")
    parser.add_argument("--entries", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    for ranks in args.ranks.split(","):
        measure(args.xpurun, int(ranks), args.entries, args.repeat)


if __name__ == "__main__":
    main()
