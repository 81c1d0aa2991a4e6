"""Shared code of the measurements: the process that is dumped, paths of programs, output of figures."""

import argparse
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support"))
import stack_files  # noqa: E402

read_stacks, compact_stacks = stack_files.read, stack_files.compact
PYTHON = os.environ.get("XPURUN_BENCH_PYTHON", "/usr/bin/python3")

# Argument 1: number of threads besides the main thread, each some Python and C frames deep. Prints the loaded modules.
TARGET = """
import sys, threading, time
try:
    import torch
except ImportError:
    torch = None
def work(n):
    if n:
        return sorted([n], key=lambda x: work(n - 1)) if n % 10 == 0 else work(n - 1)
    time.sleep(100000)
for i in range(int(sys.argv[1])):
    threading.Thread(target=work, args=(25,), daemon=True).start()
{then}
time.sleep(1)
print("torch " + torch.__version__ if torch else "no torch", flush=True)
time.sleep(100000)
"""


def target_text(then=""):
    """The program's text; `then` runs when its threads have been started."""
    return TARGET.format(then=then)


def arguments(doc):
    """A parser that prints the script's own description and knows --build."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    return parser


def helper_of(args):
    return os.path.abspath(os.path.join(args.build, "stackdump/xpurun-stackdump"))


def program_of(args):
    return os.path.abspath(os.path.join(args.build, "commands/xpurun"))


def spread(values, unit):
    values = sorted(values)
    return (
        f"median {statistics.median(values):.2f} {unit}, min {values[0]:.2f}, max {values[-1]:.2f} ({len(values)}"
        " times)"
    )
