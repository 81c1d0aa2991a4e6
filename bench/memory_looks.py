"""What looks at the memory cost (docs/memory.md): CPU time of a look at a heap of this size, and of a step without a
look.

usage: bench/memory_looks.py PARTS [OBJECTS]

PARTS: preload/python. Run with a Python that has torch.
"""

import gc
import pathlib
import sys
import time

import torch
from torch import nn

PARTS, OBJECTS = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000000
settings = {"socket": "", "is_rank": True, "frames": set(), "chances": []}
parts = {}


def part(name):
    if name not in parts:
        functions = parts[name] = {"__name__": name, "settings": settings}
        exec(compile((PARTS / (name + ".py")).read_text(), "<xpurun " + name + ">", "exec"), functions)
    return parts[name]


def cost_of(action, rounds=5):
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        action()
        times.append(time.process_time() - begin)
    return min(times)


def main():
    settings["part"] = part
    part("xpurun_exceptions")["send"] = lambda data: None
    looks, steps = part("xpurun_memory")["looks"], part("xpurun_stages")["steps"]
    objects = [{"a": [i], "b": (i,)} for i in range(OBJECTS // 2)]
    model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(1000)])
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(2, 64)).sum().backward()
    optimizer.step()
    kept = [torch.empty(1000) for _ in range(3000)]
    memory, count = bytearray(4096), 200000
    steps.looks, steps.is_first, steps.end, steps.due_ns = looks, False, 3, 1 << 62
    step = cost_of(lambda: [steps.ended(memory, 5, 3) for _ in range(count)]) / count
    print("torch %s, %d objects of Python, %d tensors" % (torch.__version__, len(gc.get_objects()), 9000 + len(kept)))
    print("a look: %.0f ms; a step: %.2f us" % (1e3 * cost_of(lambda: looks.look("time")), 1e6 * step))
    if looks.errors:
        sys.exit("%d parts of looks failed" % looks.errors)
    return objects


main()
