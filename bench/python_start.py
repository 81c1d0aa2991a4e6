#!/usr/bin/env python3
"""What the hooks in Python processes cost: the start of an interpreter that does nothing, and a call of a wrapper in
torch.distributed around a function that does nothing.

usage: bench/python_start.py build/preload/libxpurun_preload.so [PYTHON] [RUNS]

Runs with and without the hooks alternate, both with the library loaded. Exits 1 if the medians differ by 1 ms or more.
"""

import os
import pathlib
import statistics
import subprocess
import sys

MOST_MS = 1.0
CALLS = 200000
# The wrapper as it stands in a program, its memory a plain buffer.
CALL = """
import pathlib, sys, time, types, functools
hooks = pathlib.Path(sys.argv[1])
parts = {}
def part(name):
    if name not in parts:
        parts[name] = {"settings": settings, "__name__": name}
        exec(compile((hooks / (name + ".py")).read_text(), name, "exec"), parts[name])
    return parts[name]
settings = {"frames": set(), "part": part, "is_rank": True}
names = part("xpurun_torch")
shared = part("xpurun_segment")
class Tensor:
    dtype = "torch.float32"
    def numel(self):
        return 5
source = "def all_reduce(tensor, op='sum', group=None, async_op=False):\\n    pass\\n"
module = types.ModuleType("c10d")
module.__file__ = "/nowhere/torch/distributed/distributed_c10d.py"
exec(compile(source, module.__file__, "exec"), module.__dict__)
class World:
    pass
world = World()
module.ReduceOp = types.SimpleNamespace(SUM="sum")
module._world = types.SimpleNamespace(pg_group_ranks={world: {0: 0, 1: 1}}, pg_names={world: "0"})
module._get_default_group = lambda: world
module.get_rank = lambda group: 0
module.get_backend = lambda group: "gloo"
memory = bytearray(shared["SEGMENT_BYTES"])
memory[shared["RECORD_AT"]] = int(sys.argv[3])
shared["receive_segment"] = lambda: memory
recorder = names["Recorder"](module)
wrapped = recorder.wrap("all_reduce", module.all_reduce, "all_reduce", "tensor", None, True)
tensor = Tensor()
def cost(function, calls):
    begun = time.process_time_ns()
    for _ in range(calls):
        function(tensor)
    return (time.process_time_ns() - begun) / calls
calls = int(sys.argv[2])
rounds = [(cost(wrapped, calls // 10), cost(module.all_reduce, calls // 10)) for _ in range(10)]
assert recorder.groups[None].called == calls // 10 * 10, recorder.groups
print(min(with_it for with_it, _ in rounds) - min(bare for _, bare in rounds))
"""


def run_ms(python, env):
    pid = os.posix_spawn(python, [python, "-c", "pass"], env)
    _, status, used = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"{python} failed: status {status}")
    return (used.ru_utime + used.ru_stime) * 1e3


def main():
    if len(sys.argv) < 2 or not os.path.isfile(sys.argv[1]):
        sys.exit(__doc__.strip())
    library = os.path.abspath(sys.argv[1])
    python = sys.argv[2] if len(sys.argv) > 2 else "/usr/bin/python3"
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 200
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LD_PRELOAD", "PYTHON"))}
    env |= {"LD_PRELOAD": library, "XPURUN_RUN": f"1:{os.getpid()}:5000:/nonexistent/socket"}
    off_env = {**env, "XPURUN_PYTHON_HOOKS": "off"}
    for warm in (env, off_env):
        run_ms(python, warm)
    with_hooks, without = [], []
    for _ in range(runs):
        without.append(run_ms(python, off_env))
        with_hooks.append(run_ms(python, env))
    cost = statistics.median(with_hooks) - statistics.median(without)
    print(f"{python} -c pass: {statistics.median(without):.2f} ms of CPU time without the hooks, "
          f"{statistics.median(with_hooks):.2f} ms with, difference {cost:.2f} ms (medians of {runs} runs each); "
          f"promised: under {MOST_MS:g} ms")
    hooks = pathlib.Path(library).parent / "python"
    for spans, text in (("0", ""), ("1", ", with a span")):
        call = subprocess.run([python, "-c", CALL, hooks, str(CALLS), spans], capture_output=True, text=True,
                              check=True)
        print(f"a wrapped call of torch.distributed{text}: {float(call.stdout):.0f} ns more than the call alone")
    return 0 if cost < MOST_MS else 1


if __name__ == "__main__":
    sys.exit(main())
