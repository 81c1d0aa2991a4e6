#!/usr/bin/env python3
"""The wrappers of torch.distributed's functions under the torch of this machine: what they record, and that
torch.compile, pickle and inspect take them for the functions.

usage: python3 tests/gpu/python_hooks.py     (one process; NCCL where there is a GPU, else gloo)

Needs nothing of the build: the segment is a plain buffer.
"""

import inspect
import os
import pathlib
import pickle
import struct
import sys
import time

HOOKS = pathlib.Path(__file__).resolve().parents[2] / "preload/python"
parts = {}


def part(name):
    if name not in parts:
        parts[name] = {"settings": settings, "__name__": name}
        exec(compile((HOOKS / f"{name}.py").read_text(), name, "exec"), parts[name])
    return parts[name]


settings = {"frames": set(), "socket": "", "part": part, "is_rank": True}
hooks = part("xpurun_torch")
names = part("xpurun_segment")
memory = bytearray(names["SEGMENT_BYTES"])
names["receive_segment"] = lambda: memory


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in ("torch.distributed.distributed_c10d", "torch.distributed._functional_collectives"):
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not Finder else None
            if spec is not None:
                hooks["watched"](spec)
                return spec
        return None


sys.meta_path.insert(0, Finder)
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402


def text(ref):
    if not ref:
        return ""
    at = names["TEXT_AT"] + ref
    length = struct.unpack_from("=I", memory, at)[0]
    return bytes(memory[at + 4:at + 4 + length]).decode()


def calls(group, places):
    """{number: (operation, reduction, type, count, root, function)} of a group's places."""
    out = {}
    for place in places:
        at = names["GROUP_AT"] + group * names["GROUP_BYTES"] + 64 + place * names["CALL_BYTES"]
        number, _, left, count, op, reduction, kind, root, _, _, function, _, _, _ = \
            struct.unpack_from("=QQQQIIIiiIIIII", memory, at)
        if number:
            assert left, (number, text(op))
            out[number] = (text(op), text(reduction), text(kind), count, root, text(function).split(".")[-1])
    return out


def everything(device):
    tensor = torch.ones(8, device=device)
    if device == "cuda":
        dist.all_gather_into_tensor(torch.empty(8, device=device), tensor)
        dist.reduce_scatter_tensor(torch.empty(8, device=device), tensor)
    else:  # gloo has none of these operations
        dist.all_gather([torch.empty(8)], tensor)
        dist.reduce(tensor, 0)
    if "group_src" in inspect.signature(dist.broadcast).parameters:
        dist.broadcast(tensor, group_src=0)
    else:
        dist.broadcast(tensor, 0)
    dist.all_gather_object([None], 1)
    dist.barrier()
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX, async_op=True).wait()


def compiled(device):
    tensor = torch.ones(8, device=device)

    def step(x):
        y = x * 2
        dist.all_reduce(y)
        return y + 1

    def waits(x):
        y = x + 1
        dist.barrier()
        return y * 2

    assert torch.equal(torch.compile(step, fullgraph=True)(tensor), step(tensor))
    assert torch.equal(torch.compile(waits)(tensor), waits(tensor))


def functional(device):
    """Recorded where it is executed, and not where torch.compile traces it."""
    import torch.distributed._functional_collectives as collectives
    tensor = torch.ones(8, device=device)

    def step(x):
        return collectives.all_reduce(x * 2, "sum", dist.group.WORLD) + 1

    def called():
        return struct.unpack_from("=Q", memory, names["GROUP_AT"] + 32)[0]

    before = called()
    right = step(tensor)
    assert torch.equal(right, tensor * 2 + 1)
    assert called() == before + 1
    assert calls(0, [called() % 8])[called()][:4] == ("all_reduce", "sum", "float32", 8)
    assert torch.equal(torch.compile(step, fullgraph=True)(tensor), right)
    assert called() == before + 1


def direct(device):
    group = dist.distributed_c10d._get_default_group()
    group.allreduce([torch.ones(8, device=device)]).wait()
    group.broadcast([torch.ones(8, device=device)]).wait()
    called = struct.unpack_from("=Q", memory, names["GROUP_AT"] + 32)[0]
    assert [calls(0, [n % 8])[n][0] for n in (called - 1, called)] == ["all_reduce", "broadcast"]


def cost_ns(function, tensor):
    begun = time.process_time_ns()
    for _ in range(2000):
        function(tensor)
    return (time.process_time_ns() - begun) / 2000


def main():
    on_gpu = torch.cuda.is_available()
    device = "cuda" if on_gpu else "cpu"
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK="0", WORLD_SIZE="1")
    assert pickle.loads(pickle.dumps(dist.all_reduce)) is dist.all_reduce
    assert "tensor" in inspect.signature(dist.all_reduce).parameters
    dist.init_process_group("nccl" if on_gpu else "gloo")
    second = dist.new_group([0])
    dist.all_reduce(torch.ones(8, device=device), group=second)
    everything(device)
    assert struct.unpack_from("=I", memory, 16)[0] == 2
    assert calls(1, range(8)) == {1: ("all_reduce", "sum", "float32", 8, -1, "main")}, calls(1, range(8))
    seen = calls(0, range(8))
    assert [seen[n][:2] for n in sorted(seen)] == [
        ("new_group", ""),
        ("all_gather", ""), ("reduce_scatter" if on_gpu else "reduce", "sum"), ("broadcast", ""),
        ("all_gather_object", ""), ("barrier", ""), ("all_reduce", "max")], seen
    assert seen[4][4] == 0 and all(seen[n][5] == "everything" for n in sorted(seen)[1:]), seen
    direct(device)
    if hasattr(torch, "compile"):
        compiled(device)
        functional(device)
    tensor = torch.ones(1, device=device)
    bare = dist.all_reduce.__wrapped__
    wrapped_ns = min(cost_ns(dist.all_reduce, tensor) for _ in range(5))
    bare_ns = min(cost_ns(bare, tensor) for _ in range(5))
    dist.destroy_process_group()
    os.environ["MASTER_PORT"] = "29512"
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(3))
    assert struct.unpack_from("=I", memory, 16)[0] == 3
    dist.destroy_process_group()
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}: right; all_reduce of one float on {device}: "
          f"{wrapped_ns:.0f} ns of CPU time with the wrapper, {bare_ns:.0f} without")


if __name__ == "__main__":
    main()
