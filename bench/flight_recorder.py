"""Time of `xpurun report` over a directory of Flight Recorder dumps: 1,024 ranks with 2,000 entries each.

usage: flight_recorder.py XPURUN [--ranks N] [--entries N]

The dumps are two files with many names: one rank called another operation than all the rest.
"""

import argparse
import os
import pathlib
import pickle
import pickletools
import subprocess
import sys
import tempfile
import time

MAKER = pathlib.Path(__file__).resolve().parent.parent / "tests/data/flight_recorder/make_dumps.py"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("xpurun")
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--entries", type=int, default=2000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        two = pathlib.Path(place, "two")
        subprocess.run([sys.executable, MAKER, two, "mismatch", "--ranks", "2", "--calls", str(args.entries - 1)],
                       check=True)
        for path in sorted(two.iterdir()):
            dump = pickle.loads(path.read_bytes())
            dump["pg_config"]["0"]["ranks"] = str(list(range(args.ranks)))
            path.write_bytes(pickletools.optimize(pickle.dumps(dump, protocol=2)))
        dumps = pathlib.Path(place, "dumps")
        dumps.mkdir()
        for rank in range(args.ranks):
            os.link(two / f"nccl_trace_rank_{1 if rank == 7 else 0}", dumps / f"nccl_trace_rank_{rank}")
        size = sum(path.stat().st_size for path in dumps.iterdir()) >> 20
        begun = time.monotonic()
        subprocess.run([args.xpurun, "report", "--quiet", dumps], check=True)
        print(f"{args.ranks} ranks, {args.entries} entries each, {size} MiB: {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    main()
