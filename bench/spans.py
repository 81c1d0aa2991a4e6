#!/usr/bin/env python3
"""What the spans of training steps cost a step, in one process on the CPU.

usage: bench/spans.py build/preload/python [PYTHON] [ROUNDS]

Rounds without the hooks, with them switched off, and switched on alternate; the memory of the
spans is a plain buffer. PYTHON needs torch.
"""

import os
import pathlib
import subprocess
import sys

JOB = """
import os, pathlib, statistics, sys, time
import torch
from torch import nn
torch.set_num_threads(1)
hooks, rounds = pathlib.Path(sys.argv[1]), int(sys.argv[2])
parts = {}
def part(name):
    if name not in parts:
        parts[name] = {"settings": settings, "__name__": name}
        exec(compile((hooks / (name + ".py")).read_text(), name, "exec"), parts[name])
    return parts[name]
settings = {"frames": set(), "part": part, "is_rank": True}
shared = part("xpurun_segment")
memory = bytearray(shared["SEGMENT_BYTES"])
shared["receive_segment"] = lambda: memory
loaders = torch.utils.data.dataloader._BaseDataLoaderIter
class Batches(loaders):  # costs nothing by itself
    def __init__(self):
        pass
    def __next__(self):
        return None
class Optimizer(torch.optim.Optimizer):
    def __init__(self):
        super().__init__([torch.ones(1)], {})
    def step(self):
        pass
loaders.__next__ = Batches.__next__
del Batches.__next__
def backward():
    pass
torch.autograd.backward = backward
Optimizer()  # torch wraps step() of the class
bare = loaders.__next__, torch.autograd.backward, nn.Module.__call__, None
bare_step = Optimizer.step
part("xpurun_stages")["install"](torch)
Optimizer()
assert nn.Module.__call__ is bare[2]
hooked = loaders.__next__, torch.autograd.backward, nn.Module.__call__, None
hooked_step = Optimizer.step
module = sys.modules["torch.optim.optimizer"]
registered = [getattr(module, name, {}) for name in ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")]
kept = [dict(one) for one in registered]
def with_hooks(how):
    loaders.__next__, torch.autograd.backward = (bare if how == "none" else hooked)[:2]
    Optimizer.step = bare_step if how == "none" else hooked_step
    for one, items in zip(registered, kept):
        one.clear()
        one.update({} if how == "none" else items)
    memory[shared["RECORD_AT"]] = how == "on"
batches, optimizer = Batches(), Optimizer()
def step():
    next(batches)
    torch.autograd.backward()
    optimizer.step()
def cost(count):
    begun = time.process_time_ns()
    for _ in range(count):
        step()
    return (time.process_time_ns() - begun) / count
def measure(count):
    costs = []
    for _ in range(rounds):
        row = []
        for how in ("none", "off", "on"):
            with_hooks(how)
            row.append(cost(count))
        costs.append(row)
    return costs
measure(10)
costs = measure(2000)
written = shared["segment"].next_span()
assert written > rounds * 4 * 2000, written
def text(values):
    low, middle, high = statistics.quantiles(values)
    return "%.2f us (quartiles %.2f to %.2f)" % (middle / 1e3, low / 1e3, high / 1e3)
print("torch %s, Python %s, load %.1f" % (torch.__version__, sys.version.split()[0], os.getloadavg()[0]))
print("four spans of a step (data, forward, backward, optimizer):", text([on - none for none, off, on in costs]))
print("the same, switched off:", text([off - none for none, off, on in costs]))
print("an empty step without hooks:", text([none for none, off, on in costs]))
"""


def main():
    if len(sys.argv) < 2 or not os.path.isfile(os.path.join(sys.argv[1], "xpurun_stages.py")):
        sys.exit(__doc__.strip())
    python = sys.argv[2] if len(sys.argv) > 2 else "/usr/bin/python3"
    rounds = sys.argv[3] if len(sys.argv) > 3 else "30"
    return subprocess.run([python, "-c", JOB, pathlib.Path(sys.argv[1]).resolve(), rounds], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
