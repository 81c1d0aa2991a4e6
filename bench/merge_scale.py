"""Time and sizes of a report over many ranks: merging 1,000 ranks of 50 threads must take a few seconds.

usage: merge_scale.py REPORT_TOOL [--ranks 1000] [--threads 50]   (REPORT_TOOL: build/tests/unit/report/report_tool)
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

MAKE_RUN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "support" / "make_run.py"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=50)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temp:
        run = pathlib.Path(temp) / "run"
        subprocess.run([sys.executable, MAKE_RUN, run, "--ranks", str(given.ranks), "--threads", str(given.threads)],
                       check=True)
        read = sum(f.stat().st_size for f in run.rglob("*.stacks.json"))
        start = time.monotonic()
        subprocess.run([given.tool, "report", run], check=True)
        seconds = time.monotonic() - start
        page = (run / "report.html").stat().st_size
        picture = (run / "stacks" / "merged.svg").stat().st_size
    print(f"{given.ranks} ranks, {given.threads} threads each, {read / 1e6:.1f} MB of stacks: {seconds:.2f} s; "
          f"page {page / 1e3:.0f} kB, merged.svg {picture / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
