"""Python's looks at the memory (preload/python/xpurun_memory.py), with a torch whose GPU is made of dictionaries: whose
the blocks are, which variable keeps tensors, what a window of steps finds, and that nothing is kept or changed."""

import gc
import itertools
import json
import pathlib
import sys
import types
import unittest

PARTS = pathlib.Path(__file__).resolve().parents[2] / "preload" / "python"
MIB = 1 << 20


class Storage:
    made = 0

    def __init__(self, gpu, size):
        Storage.made += 1
        self._cdata, self.size = 1000 + Storage.made, size
        self.address = gpu.allocate(size) if gpu is not None else 0

    def nbytes(self):
        return self.size


class Tensor:
    def __init__(self, gpu, size, is_leaf=True):
        self.storage = Storage(gpu, size)
        self.own = {"device": types.SimpleNamespace(type="cpu" if gpu is None else "cuda", index=gpu and 0),
                    "layout": "strided", "is_leaf": is_leaf, "grad": None}
        self.dtype, self.shape = "float32", (size // 4,)

    device, layout, is_leaf = (property(lambda self, name=name: self.own[name])
                               for name in ("device", "layout", "is_leaf"))
    grad = property(lambda self: self.own["grad"], lambda self, grad: self.own.update(grad=grad))

    def untyped_storage(self):
        return self.storage

    def is_shared(self):
        return False


class FakeTensor(Tensor):
    """What a compiler passes: it must not be touched."""

    def untyped_storage(self):
        raise AssertionError("touched")


class Stubborn(Tensor):
    """A subclass of the program."""

    device = property(lambda self: 1 / 0)


class Module:
    def __init__(self, **members):
        self._parameters = {k: v for k, v in members.items() if isinstance(v, Tensor) and k != "running_mean"}
        self._buffers = {k: v for k, v in members.items() if k == "running_mean"}
        self._modules = {k: v for k, v in members.items() if isinstance(v, Module)}


class GPT(Module):
    pass


class DistributedDataParallel(Module):
    def __init__(self, module, sizes):
        super().__init__(module=module)
        data = types.SimpleNamespace(strs_map={"bucket_sizes": "7", "rebuilt_bucket_sizes": sizes})
        self.logger = types.SimpleNamespace(_get_ddp_logging_data=lambda: data)


class Optimizer:
    def __init__(self, params):
        self.param_groups, self.state = [{"params": params}], {}


class AdamW(Optimizer):
    pass


class Guard:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


class Gpu:
    """A caching allocator: one segment of blocks side by side."""

    made = itertools.count(1)

    def __init__(self):
        self.base = next(Gpu.made) << 40  # tensors of other tests may still exist
        self.blocks, self.records, self.calls, self.observer, self.site = [], False, [], None, []

    def allocate(self, size):
        address = self.base if not self.blocks else self.blocks[-1]["address"] + self.blocks[-1]["size"]
        self.blocks.append({"address": address, "size": size, "requested_size": size, "state": "active_allocated",
                            "frames": list(self.site) if self.records else []})
        return address

    def module(self):
        torch = types.ModuleType("torch")
        torch.__file__ = "/torch/__init__.py"
        torch.Tensor, torch.strided = Tensor, "strided"
        torch.nn, torch.optim = types.SimpleNamespace(Module=Module), types.SimpleNamespace(Optimizer=Optimizer)
        torch._C = types.SimpleNamespace(
            DisableTorchFunction=Guard, _data_address=lambda t: t.storage.address,
            _cuda_isHistoryEnabled=lambda: self.records,
            _cuda_attach_out_of_memory_observer=lambda call: setattr(self, "observer", call))
        bytes_in_use = {"all": {"current": 7 * MIB, "peak": 9 * MIB}}
        memory = types.SimpleNamespace(
            memory_stats_as_nested_dict=lambda _: {"allocated_bytes": bytes_in_use,
                                                   "reserved_bytes": {"all": {"current": 20 * MIB}}},
            _record_memory_history=self.record)
        torch.cuda = types.SimpleNamespace(
            is_initialized=lambda: True, is_current_stream_capturing=lambda: False, memory=memory,
            mem_get_info=lambda _: (50 * MIB, 80 * MIB), memory_snapshot=self.snapshot)
        return torch

    def record(self, enabled, **how):
        self.calls.append((enabled, how))
        self.records = enabled is not None

    def snapshot(self):
        return [{"device": 0, "address": self.base, "total_size": 20 * MIB, "stream": 0, "segment_pool_id": (0, 0),
                 "blocks": self.blocks}]


class Looks(unittest.TestCase):
    def setUp(self):
        self.gpu = Gpu()
        self.parts, self.sent = {}, []
        self.settings = {"socket": "", "is_rank": True, "frames": set(), "chances": [], "part": self.part}
        before = sys.modules.get("torch")
        sys.modules["torch"] = self.torch = self.gpu.module()
        self.addCleanup(lambda: sys.modules.pop("torch") if before is None else
                        sys.modules.__setitem__("torch", before))
        self.part("xpurun_segment")["segment"].package = "/torch/"
        self.part("xpurun_exceptions")["send"] = lambda data: self.sent.append(json.loads(data))
        self.memory = self.part("xpurun_memory")
        self.looks = self.memory["looks"]

    def part(self, name):
        if name not in self.parts:
            functions = {"__name__": name, "settings": self.settings}
            code = compile((PARTS / (name + ".py")).read_text(), "<xpurun " + name + ">", "exec")
            exec(code, functions)
            self.parts[name] = functions
        return self.parts[name]

    def look(self, why="request"):
        self.looks.look(why)
        self.assertEqual(self.sent[-1]["errors"], 0)
        return self.sent[-1]

    @staticmethod
    def held(look, device="cuda:0"):
        out = {}
        for one in look["holders"]:
            if one["device"] == device:
                out[one["category"], one["name"]] = out.get((one["category"], one["name"]), 0) + one["bytes"]
        return out

    def model(self):
        layers = [GPT(weight=Tensor(self.gpu, 2 * MIB)) for _ in range(2)]
        model = GPT(head=Tensor(self.gpu, 1 * MIB), running_mean=Tensor(self.gpu, 512))
        model._modules = {"0": layers[0], "1": layers[1]}
        params = [layers[0]._parameters["weight"], layers[1]._parameters["weight"], model._parameters["head"]]
        for param in params:
            param.grad = Tensor(self.gpu, param.storage.size)
        optimizer = AdamW(params)
        for param in params:
            optimizer.state[param] = {"step": 3, "exp_avg": Tensor(self.gpu, param.storage.size)}
        return model, optimizer

    def test_blocks_by_their_owners(self):
        kept = self.model()
        self.gpu.allocate(3 * MIB)  # of the autograd graph
        self.gpu.blocks.append({"address": 0, "size": 4 * MIB, "state": "inactive"})
        self.gpu.blocks.append({"address": 0, "size": 6 * MIB, "state": "inactive"})
        self.gpu.blocks.append({"address": 0, "size": MIB, "state": "active_pending_free"})
        look = self.look()
        self.assertEqual(self.held(look), {
            ("parameters", "GPT.#.weight"): 4 * MIB, ("parameters", "GPT.head"): MIB,
            ("gradients", "GPT.#.weight"): 4 * MIB, ("gradients", "GPT.head"): MIB,
            ("optimizer", "AdamW exp_avg"): 5 * MIB, ("buffers", "GPT.running_mean"): 512,
            ("activations", ""): 3 * MIB, ("unused", ""): 10 * MIB, ("pending", ""): MIB, ("outside", ""): 10 * MIB})
        device = next(one for one in look["devices"] if one["name"] == "cuda:0")
        self.assertEqual((device["largest"], device["unused"], device["free"]), (6 * MIB, 10 * MIB, 50 * MIB))
        self.assertEqual(len(kept), 2)

    def test_buckets_of_distributed_data_parallel(self):
        model, _ = kept = self.model()
        ddp = DistributedDataParallel(model, "3145728, 2097152")
        self.gpu.allocate(3 * MIB)
        self.gpu.allocate(MIB)
        held = self.held(self.look())
        self.assertEqual(held["communication", ""], 3 * MIB)
        self.assertEqual(held["activations", ""], MIB)
        self.assertEqual(held["parameters", "GPT.head"], MIB)
        self.assertEqual((len(kept), ddp._modules["module"]), (2, model))

    def test_the_variable_that_keeps_tensors(self):
        class Trainer:
            def __init__(self):
                self.history = []

        def train(trainer):
            losses = [Tensor(self.gpu, 256, is_leaf=False) for _ in range(50)]
            loss = Tensor(self.gpu, 256, is_leaf=False)
            trainer.history.extend({"batch": Tensor(self.gpu, 1024)} for _ in range(20))
            others = FakeTensor(self.gpu, 64), Stubborn(self.gpu, 2048)
            return self.look(), losses, loss, others

        look = train(Trainer())[0]
        held = self.held(look)
        losses = {name.partition(" (")[0]: size for (category, name), size in held.items() if category == "activations"}
        self.assertEqual(losses, {"list losses of train()": 50 * 256, "Tensor loss of train()": 256,
                                  "": 64})  # what FakeTensor refers to
        self.assertRegex(" ".join(name for _, name in held), r"list losses of train\(\) \(test_memory_looks.py:\d+\)")
        self.assertEqual(held["tensors", "list Trainer.history"], 20 * 1024)
        self.assertIn(2048, held.values())

    def test_a_module_that_fails_costs_only_itself(self):
        kept = self.model()
        kept[0]._modules = 7
        self.looks.look("request")
        self.assertEqual(self.sent[0]["errors"], 1)
        held = self.held(self.sent[0])
        self.assertEqual(held["optimizer", "AdamW exp_avg"], 5 * MIB)
        self.assertEqual(held["parameters", "of AdamW"], 4 * MIB)

    def test_a_look_keeps_nothing(self):
        def train():
            batch = Tensor(self.gpu, 4096)
            self.look()
            return id(batch.storage)

        before = {id(one) for one in gc.get_objects() if type(one) is Storage}
        storage = train()
        gc.collect()
        after = {id(one) for one in gc.get_objects() if type(one) is Storage}
        self.assertNotIn(storage, after - before)

    def test_a_window_finds_what_grows_and_where(self):
        self.gpu.site = [{"filename": "/torch/x.py", "line": 1, "name": "empty"},
                         {"filename": "/job/train.py", "line": 55, "name": "remember"}]
        kept = [Tensor(self.gpu, MIB)]
        self.looks.begin_window("growth", 4, False)
        self.assertTrue(self.gpu.records)
        for step in range(4):
            kept.append(Tensor(self.gpu, MIB))
            self.looks.window.at_backward()
            self.looks.steps += 1
        self.looks.end_window()
        self.assertFalse(self.gpu.records)
        self.assertEqual([call[0] for call in self.gpu.calls], ["state", None])
        self.assertIs(self.torch.cuda.memory._record_memory_history.__func__, Gpu.record)
        peak, look = self.sent
        self.assertEqual((peak["why"], look["why"], look["steps"], self.looks.window), ("peak", "growth", 4, None))
        grown = [one for one in look["holders"] if one.get("grown")]
        self.assertEqual([(one["bytes"], one["grown"], one["count"]) for one in grown], [(4 * MIB, 4 * MIB, 4)])
        self.assertEqual([look["places"][at]["line"] for at in grown[0]["site"]], [1, 55])

    def test_the_programs_own_history_is_left_alone(self):
        self.gpu.records = True
        for why in ("first", "time", "growth", "full"):  # a snapshot would copy the whole history
            self.looks.look(why)
            self.looks.begin_window(why, 2, False)
        self.assertEqual((self.sent, self.looks.window), ([], None))
        self.looks.begin_window("request", 2, False)
        self.looks.steps += 2
        self.looks.end_window()
        self.assertEqual([one["why"] for one in self.sent], ["request"])
        self.assertEqual(self.gpu.calls, [])
        self.assertTrue(self.gpu.records)
        self.gpu.records = False
        self.looks.begin_window("growth", 2, False)
        self.torch.cuda.memory._record_memory_history("all", max_entries=5)  # by the program, meanwhile
        self.looks.steps += 2
        self.looks.end_window()
        self.assertEqual([call[0] for call in self.gpu.calls], ["state", "all"])
        self.assertTrue(self.gpu.records)

    def test_no_look_while_a_graph_is_captured(self):
        self.torch.cuda.is_current_stream_capturing = lambda: True
        self.looks.look("request")
        self.assertEqual(self.sent, [])

    def test_python_objects_of_the_window(self):
        texts = []

        def append_loss(number):
            texts.append("loss %d" % number)

        self.looks.begin_window("request", 5, True)
        for step in range(5):
            for number in range(100):
                append_loss(number)
            self.looks.steps += 1
        self.looks.end_window()
        look = self.sent[-1]
        objects = [one for one in look["holders"] if one["category"] == "objects"]
        place = look["places"][objects[0]["site"][0]]
        self.assertTrue(place["function"].endswith("append_loss"), place)
        self.assertGreaterEqual(objects[0]["count"], 500)

    def test_when_a_step_ends_and_when_a_look_is_due(self):
        stages, memory = self.part("xpurun_stages"), bytearray(4096)
        steps, due = stages["steps"], stages["LOOK_EVERY_NS"]
        data, backward, optimizer = 1, 2, 3
        for end in (data, backward, optimizer):  # before the program has shown all that it does
            steps.ended(memory, 10, end)
        self.assertEqual((steps.count, self.sent), (1, []))
        steps.ended(memory, 10, optimizer)
        self.assertEqual([one["why"] for one in self.sent], ["first"])
        for _ in range(50):
            steps.ended(memory, 20, optimizer)
        self.assertEqual(len(self.sent), 1)
        steps.ended(memory, 30 + 2 * due, optimizer)
        self.assertEqual([one["why"] for one in self.sent], ["first", "time"])
        memory[stages["MEMORY_AT"]] = 7  # the number of a request; without steps
        steps.ended(memory, 40 + 2 * due, optimizer)
        steps.ended(memory, 50 + 2 * due, optimizer)
        self.assertEqual([(one["why"], one["request"]) for one in self.sent[2:]], [("request", 7)])

    def test_a_program_that_does_not_train(self):
        stages, memory = self.part("xpurun_stages"), bytearray(4096)
        for _ in range(stages["FIRST_LOOK_WITHOUT_OPTIMIZER"]):
            self.assertEqual(self.sent, [])
            stages["steps"].ended(memory, 10, 1)
        self.assertEqual([(one["why"], one["step"]) for one in self.sent], [("first", 32)])

    def test_when_no_memory_is_left(self):
        self.looks.observe()
        kept = Tensor(self.gpu, 5 * MIB)
        for _ in range(3):  # a program that catches the exception and tries again
            self.gpu.observer(0, 64 * MIB, 80 * MIB, MIB)
        self.assertEqual([(one["why"], one["asked"], one["asked_device"]) for one in self.sent],
                         [("out_of_memory", 64 * MIB, "cuda:0")])
        self.assertIn(5 * MIB, self.held(self.sent[0]).values())
        self.assertEqual(kept.storage.size, 5 * MIB)

    def test_a_message_fits_the_socket(self):
        names = ["module_with_a_long_name_%d" % n for n in range(3000)]
        kept = GPT(**{name: Tensor(self.gpu, 4096) for name in names})
        data = []
        self.part("xpurun_exceptions")["send"] = data.append
        self.looks.look("request")
        self.assertLess(len(data[0]), 64 * 1000)
        held = self.held(json.loads(data[0]))
        self.assertEqual(sum(size for (category, _), size in held.items() if category == "parameters"), 3000 * 4096)
        self.assertEqual(len(kept._parameters), 3000)


if __name__ == "__main__":
    unittest.main()
