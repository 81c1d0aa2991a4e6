"""What the bootstrap records of torch.distributed, with a torch that is made up: names and positions of parameters,
groups, tags, backends, calls inside of calls."""

import os
import pathlib
import struct
import sys
import types
import unittest

HOOKS = pathlib.Path(os.environ["XPURUN_TEST_SOURCE"]) / "preload/python"
WORLD = [4, 6, 8]


class Tensor:
    def __init__(self, size, device="cpu"):
        self.size = size
        self.dtype = "torch.float32"
        self.device = types.SimpleNamespace(type=device)

    def numel(self):
        return self.size

    def element_size(self):
        return 4


class FakeTensor(Tensor):
    pass


class Options:
    def __init__(self, **values):
        self.__dict__.update(values)


C10D = '''
class ReduceOp:
    SUM, PRODUCT, MIN, MAX = range(4)
class ProcessGroup:
    group_desc = "mesh_tp"
def _get_default_group(): return next(iter(_world.pg_names))
def get_rank(group=None): return 1
def get_backend_config(group): return config
def _resolve_process_group(name): return next(g for g, n in _world.pg_names.items() if n == name)
def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    (group or _get_default_group()).allreduce([tensor], op)
def all_reduce_coalesced(tensors, op=ReduceOp.SUM, group=None, async_op=False): pass
def all_gather_coalesced(output_tensor_lists, input_tensor_list, group=None, async_op=False): pass
def all_gather_single(output_tensor, input_tensor, group=None, async_op=False):
    (group or _get_default_group()).all_gather_single(output_tensor, input_tensor)
def reduce_scatter_single(output, input, op=ReduceOp.SUM, group=None, async_op=False): pass
def gather_single(tensor, gather_tensor=None, dst=None, group=None, async_op=False, group_dst=None): pass
def from_hooks(depth, call): return from_hooks(depth - 1, call) if depth else call()
def split_group(parent_pg=None, split_ranks=None, timeout=None): pass
def barrier(group=None, async_op=False): pass
def send(tensor, dst=None, group=None, tag=0, group_dst=None): pass
def recv(tensor, src=None, group=None, tag=0, group_src=None): pass
def destroy_process_group(group=None): pass
'''
FUNCTIONAL = '''
def _resolve_group_name(group, tag=""): return group if isinstance(group, str) else group[0].names[group[1]]
def all_reduce(self, reduceOp, group, tag=""): return self
def broadcast(self, src, group, tag=""): return self
def all_gather_into_tensor_coalesced(self, group, tag=""): return self
def reduce_scatter_single(self, reduceOp, scatter_dim, group, tag=""): return self
'''


class World:
    """torch.distributed with one group, and the bootstrap that records it."""

    def __init__(self, config="cpu:gloo,cuda:gloo"):
        self.parts = {}
        self.settings = {"frames": set(), "socket": "", "part": self.part, "is_rank": True}
        hooks = self.part("xpurun_torch")
        self.names = self.part("xpurun_segment")
        self.memory = bytearray(self.names["SEGMENT_BYTES"])
        self.names["receive_segment"] = lambda: self.memory
        c10d = self.c10d = types.ModuleType("torch.distributed.distributed_c10d")
        c10d.__file__ = "/site/torch/distributed/distributed_c10d.py"
        c10d.config = config
        exec(compile(C10D, c10d.__file__, "exec"), c10d.__dict__)
        for name in ("allreduce", "broadcast", "gather", "send", "barrier", "all_gather_single"):
            setattr(c10d.ProcessGroup, name, Method(name))
        self.group = c10d.ProcessGroup()
        c10d._world = types.SimpleNamespace(pg_names={self.group: "0"},
                                            pg_group_ranks={self.group: {r: i for i, r in enumerate(WORLD)}})
        functional = self.functional = types.ModuleType("torch.distributed._functional_collectives")
        functional.__file__ = "/site/torch/distributed/_functional_collectives.py"
        exec(compile(FUNCTIONAL, functional.__file__, "exec"), functional.__dict__)
        hooks["wrap_functions"](functional)  # distributed_c10d may import it
        hooks["wrap_functions"](c10d)

    def part(self, name):
        if name not in self.parts:
            self.parts[name] = {"settings": self.settings, "__name__": name}
            exec(compile((HOOKS / f"{name}.py").read_text(), name, "exec"), self.parts[name])
        return self.parts[name]

    def text(self, ref):
        at = self.names["TEXT_AT"] + ref
        size = struct.unpack_from("=I", self.memory, at)[0]
        return bytes(self.memory[at + 4:at + 4 + size]).decode() if ref else ""

    def record(self, place):
        at = self.names["GROUP_AT"] + 64 + place * self.names["CALL_BYTES"]
        (number, _, left, count, op, reduction, _, root, peer, _, function, _, flags, tag, thread,
         detail) = struct.unpack_from("=QQQQIIIiiIIIIiII", self.memory, at)
        return types.SimpleNamespace(number=number, left=left, count=count, op=self.text(op), tag=tag, root=root,
                                     reduction=self.text(reduction), peer=peer, function=self.text(function),
                                     is_async=bool(flags & 1), thread=self.text(thread), detail=detail)

    def called(self):
        return struct.unpack_from("=Q", self.memory, self.names["GROUP_AT"] + 32)[0]

    def latest(self):
        return self.record(self.called() % self.names["COLLECTIVES"])

    def latest_message(self):
        number = struct.unpack_from("=Q", self.memory, self.names["GROUP_AT"] + 48)[0]
        return self.record(self.names["COLLECTIVES"] + (number - 1) % self.names["OTHERS"])


class Method:
    """As pybind11's: no code object, and bound to the object."""

    def __init__(self, name):
        self.__name__ = name
        self.seen = []

    def __get__(self, instance, owner):
        return self if instance is None else lambda *args, **kwargs: self(instance, *args, **kwargs)

    def __call__(self, *args, **kwargs):
        self.seen.append((args, kwargs))


class Calls(unittest.TestCase):
    def test_coalesced_calls_count_all_tensors(self):
        world = World()
        world.c10d.all_reduce_coalesced([Tensor(10), Tensor(20)])
        call = world.latest()
        self.assertEqual((call.op, call.count, call.reduction, call.is_async),
                         ("all_reduce_coalesced", 30, "sum", False))
        world.c10d.all_gather_coalesced([[Tensor(1)] * 3], [Tensor(7)])
        self.assertEqual((world.latest().op, world.latest().count), ("all_gather_coalesced", 7))

    def test_a_split_is_a_call_of_the_parent(self):
        world = World()
        world.c10d.split_group(world.group, [[4, 6], [8]])
        self.assertEqual((world.called(), world.latest().op), (1, "split_group"))

    def test_methods_of_the_group(self):
        world = World()
        group = world.group
        group.allreduce([Tensor(5)], Options(reduceOp=world.c10d.ReduceOp.MAX))
        call = world.latest()
        self.assertEqual((call.op, call.count, call.reduction, call.is_async, call.function),
                         ("all_reduce", 5, "max", True, "Calls.test_methods_of_the_group" if sys.version_info >= (3, 11)
                          else "test_methods_of_the_group"))
        group.broadcast([Tensor(6)], opts=Options(rootRank=2))
        self.assertEqual((world.latest().op, world.latest().root), ("broadcast", 2))
        group.broadcast(Tensor(6), 1)
        self.assertEqual(world.latest().root, 1)
        group.gather([[Tensor(1)] * 3], [Tensor(4)], Options(rootRank=0))
        self.assertEqual((world.latest().op, world.latest().count, world.latest().root), ("gather", 4, 0))
        group.barrier()
        self.assertEqual((world.latest().op, world.called()), ("barrier", 5))
        group.send([Tensor(3)], 2, 9)
        self.assertEqual((world.latest_message().op, world.latest_message().peer, world.latest_message().tag),
                         ("send", 2, 9))
        seen = world.c10d.ProcessGroup.allreduce.__wrapped__.seen
        self.assertIs(seen[0][0][0], group)

    def test_the_names_of_newer_releases(self):
        world = World()
        world.c10d.all_gather_single(Tensor(12), Tensor(4))
        self.assertEqual((world.called(), world.latest().op, world.latest().count), (1, "all_gather", 4))
        world.c10d.reduce_scatter_single(Tensor(3), Tensor(9))
        self.assertEqual((world.called(), world.latest().op, world.latest().count), (2, "reduce_scatter", 3))
        world.c10d.gather_single(Tensor(5), dst=6)
        self.assertEqual((world.latest().op, world.latest().count, world.latest().root), ("gather", 5, 1))
        world.group.all_gather_single(Tensor(12), Tensor(4))
        self.assertEqual((world.called(), world.latest().op, world.latest().count), (4, "all_gather", 4))
        world.functional.reduce_scatter_single(Tensor(6), "sum", 0, "0")
        self.assertEqual((world.called(), world.latest().op, world.latest().count), (5, "reduce_scatter", 6))

    def test_the_caller_of_a_deep_hook_of_torch(self):
        world = World()
        world.c10d.from_hooks(24, world.c10d.barrier)
        self.assertEqual(world.latest().function.rpartition(".")[2], "test_the_caller_of_a_deep_hook_of_torch")

    def test_of_nested_calls_the_outermost_counts(self):
        world = World()
        world.c10d.all_reduce(Tensor(5))
        self.assertEqual((world.called(), world.latest().is_async), (1, False))

    def test_functional_collectives(self):
        world = World()
        tensor = Tensor(8)
        self.assertIs(world.functional.all_reduce(tensor, "avg", "0"), tensor)
        call = world.latest()
        self.assertEqual((call.op, call.count, call.reduction, call.is_async), ("all_reduce", 8, "avg", True))
        mesh = types.SimpleNamespace(names=["other", "0"])
        world.functional.broadcast(tensor, 2, (mesh, 1))
        self.assertEqual((world.latest().op, world.latest().root), ("broadcast", 2))
        world.functional.all_gather_into_tensor_coalesced([tensor, tensor], world.group)
        self.assertEqual((world.latest().op, world.latest().count), ("all_gather_coalesced", 16))

    def test_a_compiler_that_traces_calls_nothing(self):
        world = World()
        world.functional.all_reduce(Tensor(8), "sum", "0")
        world.functional.all_reduce(FakeTensor(8), "sum", "0")
        self.assertEqual(world.called(), 1)
        # torch.compile looks through the wrapper by this attribute.
        inner = world.functional.all_reduce._torchdynamo_inline
        self.assertIs(inner, world.functional.all_reduce.__wrapped__)

    def test_messages_are_numbered_by_peer_and_tag(self):
        world = World()
        for tag, number in ((5, 1), (6, 1), (5, 2), (0, 1)):
            world.c10d.send(Tensor(1), 8, tag=tag)
            call = world.latest_message()
            self.assertEqual((call.peer, call.tag, call.number), (2, tag, number))

    def test_nccl_knows_no_tags(self):
        world = World("cpu:gloo,cuda:nccl")
        for device, tags in (("cuda", (0, 0)), ("cpu", (5, 6))):
            for tag, expected in zip((5, 6), tags):
                world.c10d.recv(Tensor(1, device), 4, tag=tag)
                self.assertEqual((world.latest_message().tag, world.latest_message().is_async),
                                 (expected, device == "cuda"))

    def test_the_return_is_the_end_where_the_backend_of_the_device_waits(self):
        for config, device, is_async in (
                ("cpu:gloo,cuda:nccl", "cpu", False), ("cpu:gloo,cuda:nccl", "cuda", True), ("cuda:nccl", "cuda", True),
                ("cpu:gloo,cuda:gloo", "cuda", False), ("cpu:ucc,cuda:ucc", "cpu", False),
                ("cpu:ucc,cuda:ucc", "cuda", True), ("gloo", "cpu", False), ("mpi", "cpu", False),
                ("own", "cpu", True)):
            world = World(config)
            world.c10d.all_reduce(Tensor(1, device))
            self.assertEqual(world.latest().is_async, is_async, (config, device))
        world = World("cpu:gloo,cuda:nccl")
        world.c10d.barrier()
        self.assertTrue(world.latest().is_async)

    def test_the_description_of_a_group(self):
        world = World()
        world.c10d.barrier()
        at = world.names["GROUP_AT"] + 24
        self.assertEqual(world.text(struct.unpack_from("=I", world.memory, at)[0]), "mesh_tp")


if __name__ == "__main__":
    unittest.main(verbosity=2)
