#!/usr/bin/env python3
"""Cost of one hooked call, with fake vendor libraries: without the preload, with timing off, light and full.

usage: bench/timing_call.py BUILD_DIR [ROUNDS]

First, hooked and real function in turn in one process (call_cost.cpp), which keeps the noise of a busy machine small.
Then whole processes against each other. Every row includes the fakes' own work (a lock, a hash of the arguments); the
differences are the preload's cost. The events of a fake GPU are cheaper than those of a real one, which
tests/gpu/timing.py measures.
"""

import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))
os.environ["XPURUN_TEST_SOURCE"] = str(ROOT)
import segment  # noqa: E402


def one(build, level, budget_ppm):
    """Nanoseconds per call, and the segment."""
    env = dict(os.environ, FAKE_GPU_WORK_US="1")
    with tempfile.TemporaryDirectory() as directory:
        supervisor = segment.FakeSupervisor(directory, lambda: segment.Segment(level or 0, budget_ppm))
        if level is not None:
            env |= {"LD_PRELOAD": f"{build}/preload/libxpurun_preload.so", "XPURUN_RUN": supervisor.variable()}
        out = subprocess.run(
            [
                f"{build}/tests/preload/timing_victim",
                f"{build}/tests/preload/libtiming_body13.so",
                "global",
                "memory",
                "settle",
                "million",
            ],
            env=env,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        supervisor.close()
    return float(re.search(r"([\d.]+) ns a call", out)[1]), next(iter(supervisor.segments.values()), None)


def in_turn(build, level, budget_ppm):
    """Prints the output of call_cost.cpp with the fakes."""
    fakes = build / "tests" / "fakes"
    with tempfile.TemporaryDirectory() as directory:
        program = f"{directory}/call_cost"
        subprocess.run(["g++", "-O2", "-o", program, ROOT / "bench" / "call_cost.cpp", "-ldl"], check=True)
        supervisor = segment.FakeSupervisor(directory, lambda: segment.Segment(level, budget_ppm))
        env = dict(
            os.environ,
            FAKE_GPU_WORK_US="1",
            LD_LIBRARY_PATH=f"{fakes}:{fakes}/cuda13",
            XPURUN_RUN=supervisor.variable(),
            LD_PRELOAD=f"{build}/preload/libxpurun_preload.so",
        )
        libraries = [fakes / "cuda13" / "libcudart.so.13", fakes / "cuda13" / "libcublas.so.13", fakes / "libnccl.so.2"]
        print(
            subprocess.run([program, *libraries], env=env, capture_output=True, text=True, check=True).stdout,
            end="",
            flush=True,
        )
        supervisor.close()


def main():
    build, rounds = pathlib.Path(sys.argv[1]).resolve(), int((sys.argv + ["7"])[2])
    rows = {
        "no preload": (None, 0),
        "off": (segment.OFF, 1000),
        "light, 0.1 %": (segment.LIGHT, 1000),
        "full": (segment.FULL, 1000),
    }
    for name, (level, budget_ppm) in rows.items():
        if level is not None:
            print(f"{name}:")
            in_turn(build, level, budget_ppm)
    times, health = {name: [] for name in rows}, {}
    for _ in range(rounds):
        for name, (level, budget_ppm) in rows.items():
            ns, shared = one(build, level, budget_ppm)
            times[name].append(ns)
            health[name] = shared.health() if shared else {}
    base = statistics.median(times["no preload"])
    for name, found in times.items():
        h = health[name]
        print(f"{name:14} {statistics.median(found):7.1f} ns a call ({min(found):.1f} to {max(found):.1f}), "
              f"{statistics.median(found) - base:+.1f}; {h.get('samples', 0)} timed")


if __name__ == "__main__":
    main()
