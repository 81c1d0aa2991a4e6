#!/usr/bin/env python3
"""What --trace-python costs a call, in one process on the CPU.

usage: bench/traced_functions.py build/preload/python PYTHON...

Per interpreter: a call of an empty function without and with tracing (as a short call, as a span, while recording is
off), and an exception that leaves a function that is not traced. The memory of the spans is a plain buffer. The median
of 15 rounds, less the same loop without tracing.
"""

import os
import pathlib
import subprocess
import sys

JOB = """
import importlib, os, pathlib, statistics, sys, time
hooks = pathlib.Path(sys.argv[1])
parts = {}
def part(name):
    if name not in parts:
        parts[name] = {"settings": settings, "__name__": name}
        exec(compile((hooks / (name + ".py")).read_text(), name, "exec"), parts[name])
    return parts[name]
settings = {"frames": set(), "part": part, "is_rank": True, "chances": []}
shared = part("xpurun_segment")
memory = bytearray(shared["SEGMENT_BYTES"])
shared["receive_segment"] = lambda: memory
bare, traced = type(os)("bare"), type(os)("traced")
for module in (bare, traced):
    exec("def f(x):\\n    return x\\ndef fails():\\n    raise KeyError\\n"
         "def steps(n):\\n    for i in range(n):\\n        yield i\\n", module.__dict__)
    sys.modules[module.__name__] = module
COUNT = 20000
def calls(f):
    begun = time.process_time_ns()
    for i in range(COUNT):
        f(i)
    return (time.process_time_ns() - begun) / COUNT
def exceptions(f):
    begun = time.process_time_ns()
    for i in range(COUNT):
        try:
            f()
        except KeyError:
            pass
    return (time.process_time_ns() - begun) / COUNT
def steps(f):
    begun = time.process_time_ns()
    for i in f(COUNT):
        pass
    return (time.process_time_ns() - begun) / COUNT
before = [exceptions(bare.fails) for _ in range(15)]
functions = part("xpurun_functions")
functions["install"]("traced:f,traced:steps", "0", {})
assert not [t.name for t in functions["targets"] if not t.is_settled]
def cost(measure, name, least_us, on=1):
    part("xpurun_calls")["least_ns"] = least_us * 1000
    memory[shared["RECORD_AT"]] = on
    rows = [(measure(getattr(bare, name)), measure(getattr(traced, name))) for _ in range(15)]
    return statistics.median(b for _, b in rows) - statistics.median(a for a, _ in rows)
row = [cost(calls, "f", 1000000), cost(calls, "f", 0), cost(calls, "f", 0, 0), cost(steps, "steps", 1000000)]
written = shared["segment"].next_span()
assert written > 15 * COUNT, written
after = [exceptions(bare.fails) for _ in range(15)]
row.append(statistics.median(after) - statistics.median(before))
print("| %s | %s |" % (sys.version.split()[0], " | ".join("%.2f" % (one / 1e3) for one in row)))
"""


def main():
    if len(sys.argv) < 3 or not os.path.isfile(os.path.join(sys.argv[1], "xpurun_functions.py")):
        sys.exit(__doc__.strip())
    print("| CPython | short call, us | span, us | recording off, us "
          "| short step of a generator, us | other exception, us |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    status = 0
    for python in sys.argv[2:]:
        done = subprocess.run([python, "-c", JOB, pathlib.Path(sys.argv[1]).resolve()], check=False)
        status = status or done.returncode
    print("load of the machine: %.1f" % os.getloadavg()[0])
    return status


if __name__ == "__main__":
    sys.exit(main())
