#!/usr/bin/env python3
"""What the spans of training steps cost a step: a small model on the CPU, with and without the hooks, in one process.

usage: bench/spans.py build/preload/python [PYTHON] [ROUNDS]

Rounds with and without the hooks alternate; the memory of the spans is a plain buffer. PYTHON needs torch.
"""

import os
import pathlib
import subprocess
import sys

JOB = """
import pathlib, statistics, sys, time
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
class Nothing(nn.Module):
    def forward(self, x):
        return x
class Nest(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.inner = nn.ModuleList(Nothing() for _ in range(count))
    def forward(self, x):
        for module in self.inner:
            x = module(x)
        return x
bare_call, bare_backward = nn.Module.__call__, torch.autograd.backward
part("xpurun_stages")["install"](torch)
calls, backwards = nn.Module.__call__, torch.autograd.backward
def with_hooks(on):
    nn.Module.__call__ = calls if on else bare_call
    torch.autograd.backward = backwards if on else bare_backward
    memory[shared["RECORD_AT"]] = on
layers = [nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.LayerNorm(256)) for _ in range(16)]
model, x = nn.Sequential(*layers), torch.randn(64, 256)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
def step():
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
def cost(function, count):
    begun = time.process_time_ns()
    for _ in range(count):
        function()
    return (time.process_time_ns() - begun) / count
none, hundred, one = Nest(0), Nest(100), torch.ones(1)
def measure(function, count):
    # Medians of the rounds without the hooks and of the differences of neighbours, and the quartiles of the latter.
    pairs = []
    for _ in range(rounds):
        with_hooks(1)
        hooked = cost(function, count)
        with_hooks(0)
        pairs.append((hooked, cost(function, count)))
    more = [a - b for a, b in pairs]
    return statistics.median(bare for _, bare in pairs), statistics.median(more), statistics.quantiles(more)
for function in (step, lambda: none(one), lambda: hundred(one)):
    measure(function, 2)
_, span, _ = measure(lambda: none(one), 1000)
bare, all_nested, _ = measure(lambda: hundred(one), 50)
nested = (all_nested - span) / 100
plain, more, quartiles = measure(step, 2)
sum_of_parts = 3 * span + 64 * nested
print("torch %s, Python %s" % (torch.__version__, sys.version.split()[0]))
print("a span: %.1f us; a nested module: %.2f us, of %.2f us for the call of an empty module" %
      (span / 1e3, nested / 1e3, bare / 1e5))
print("a step of 3 spans and 64 nested modules: %.2f ms without the hooks; with them %.3f ms more (quartiles %.3f to "
      "%.3f), the sum of the parts is %.3f ms, %.3f %%" %
      (plain / 1e6, more / 1e6, quartiles[0] / 1e6, quartiles[2] / 1e6, sum_of_parts / 1e6, 100 * sum_of_parts / plain))
"""


def main():
    if len(sys.argv) < 2 or not os.path.isfile(os.path.join(sys.argv[1], "xpurun_stages.py")):
        sys.exit(__doc__.strip())
    python = sys.argv[2] if len(sys.argv) > 2 else "/usr/bin/python3"
    rounds = sys.argv[3] if len(sys.argv) > 3 else "30"
    return subprocess.run([python, "-c", JOB, pathlib.Path(sys.argv[1]).resolve(), rounds], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
