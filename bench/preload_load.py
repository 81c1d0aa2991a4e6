#!/usr/bin/env python3
"""Cost of loading the preload library into a program that it ignores: /bin/true, with and without the library.

usage: bench/preload_load.py build/preload/libxpurun_preload.so [RUNS]

Runs alternate, so that load changes of the machine affect both. Exits 1 if the medians differ by 1 ms or more.
"""

import os
import statistics
import sys
import time

PROGRAM = "/bin/true"
MOST_MS = 1.0


def run_ms(env):
    begun = time.perf_counter_ns()
    pid = os.posix_spawn(PROGRAM, [PROGRAM], env)
    _, status = os.waitpid(pid, 0)
    if status != 0:
        sys.exit(f"{PROGRAM} failed: status {status}")
    return (time.perf_counter_ns() - begun) / 1e6


def main():
    if len(sys.argv) < 2 or not os.path.isfile(sys.argv[1]):
        sys.exit(__doc__.strip())
    library = os.path.abspath(sys.argv[1])
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    plain_env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    preload_env = {**plain_env, "LD_PRELOAD": library, "XPURUN_RUN": f"1:{os.getpid()}:5000:/nonexistent/socket"}
    for env in (plain_env, preload_env):
        run_ms(env)
    plain, preloaded = [], []
    for _ in range(runs):
        plain.append(run_ms(plain_env))
        preloaded.append(run_ms(preload_env))
    cost = statistics.median(preloaded) - statistics.median(plain)
    print(f"{PROGRAM}: {statistics.median(plain):.3f} ms without, {statistics.median(preloaded):.3f} ms with, "
          f"difference {cost:.3f} ms (medians of {runs} runs each); promised: under {MOST_MS:g} ms")
    return 0 if cost < MOST_MS else 1


if __name__ == "__main__":
    sys.exit(main())
