"""Who holds the memory of a rank: looks on request and by itself, after SIGKILL, and when no memory is left."""

import json
import os
import signal
import unittest

import xpurun_test
from xpurun_test import PYTHON

LEAK = """import time, torch
from torch import nn

def append_loss(texts, loss):
    texts.append("loss %f" % float(loss))

def train():
    model = nn.Linear(64, 64)
    optimizer = torch.optim.Adam(model.parameters())
    kept, texts = [], []
    while True:
        loss = model(torch.randn(8, 64)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(torch.empty(1 << 16))
        for _ in range(20):
            append_loss(texts, loss)
        time.sleep(0.02)

train()
"""
# Without a GPU, the functions that xpurun asks are replaced.
FULL = """import types, torch
cuda = torch.cuda
cuda.is_initialized = lambda: True
cuda.current_device = lambda: 0
cuda.is_current_stream_capturing = lambda: False
cuda.get_device_properties = lambda device: types.SimpleNamespace(total_memory=80 << 30)
cuda.mem_get_info = lambda device: (1 << 30, 80 << 30)
cuda.memory.memory_stats_as_nested_dict = lambda device: {
    "allocated_bytes": {"all": {"current": 60 << 30, "peak": 70 << 30}},
    "reserved_bytes": {"all": {"current": 75 << 30}}}
def block(address, gib, state):
    return {"address": address, "size": gib << 30, "requested_size": gib << 30, "state": state}
cuda.memory_snapshot = lambda **_: [{"device": 0, "address": 4096, "stream": 0, "blocks": [
    block(4096, 60, "active_allocated"), block(8192, 9, "inactive"), block(12288, 6, "inactive")]}]
raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 80.00 GiB of "
                   "which 1.00 GiB is free. Of the allocated memory 60.00 GiB is allocated by PyTorch, and 15.00 GiB "
                   "is reserved by PyTorch but unallocated.")
"""
RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}


@unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
class Memory(xpurun_test.Case):
    def memory(self, *options):
        run = self.run_xpurun("memory", *options, out=False, env=self.env(COLUMNS="200"))
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def test_who_holds_it_while_the_job_runs_and_after_sigkill(self):
        script = self.dir / "train.py"
        script.write_text(LEAK)
        job = self.start_xpurun("--", PYTHON, script, env=self.env(**RANK))
        self.wait_for(lambda: (self.out / "ranks/0/memory-first.json").exists(), "first look")
        text = self.memory("--now", "--steps", "6", "--objects", self.out)
        self.assertIn("list kept of train()", text)
        self.assertRegex(text, r"\+256 KiB .* list kept of train\(\)")
        report = json.loads(self.memory("--json", "--pid", self.rank_pids()[0]))
        held = {(one["category"], one["name"].partition(" (")[0]): one for one in report["holders"]}
        self.assertEqual(held["parameters", "Linear.weight"]["most_bytes"], 64 * 64 * 4)
        self.assertEqual(held["optimizer", "Adam exp_avg"]["most_bytes"], 64 * 65 * 4)
        self.assertAlmostEqual(held["tensors", "list kept of train()"]["grown_per_step"], 1 << 18, delta=1 << 10)
        objects = [one["place"] for one in report["holders"] if one["category"] == "objects"]
        self.assertIn("train.py:5 (append_loss)", objects)
        os.kill(self.rank_pids()[0], signal.SIGKILL)
        job.wait(60)
        self.assertIn("list kept of train()", self.memory(self.out))
        self.memory("--flame", self.dir / "memory.svg", self.out)
        self.assertIn("list kept of train()", (self.dir / "memory.svg").read_text())
        rows = self.run_xpurun("query", "--format", "csv", "SELECT category, bytes FROM memory WHERE reason = "
                               "'request' AND device = 'cpu' ORDER BY bytes DESC", self.out, out=False).stdout
        self.assertEqual(rows.splitlines()[1].partition(",")[0], "tensors")
        rows = self.run_xpurun("query", "--ask", "memory", "--format", "csv", self.out, out=False).stdout
        own = [row for row in rows.splitlines()[1:] if ",heap,host," not in row]
        self.assertIn("0,request,cpu,tensors,list kept of train()", own[0])
        self.assertTrue(any(row.startswith("0,heap,host,") for row in rows.splitlines()), rows)
        self.assertIn("list kept of train()", (self.out / "report.html").read_text())
        late = self.run_xpurun("memory", "--now", self.out, out=False)
        self.assertEqual(late.returncode, 1)
        self.assertIn("has ended", late.stderr)

    def test_a_full_gpu(self):
        script = self.dir / "full.py"
        script.write_text(FULL)
        self.run_xpurun("--", PYTHON, script, env=self.env(**RANK))
        verdict = self.verdict()
        self.assertIn("what held the GPU memory of rank 0 then: 60.0 GiB activations, 4.0 GiB outside of PyTorch",
                      verdict["evidence"])
        self.assertTrue(verdict["next"].startswith("activations hold 60.0 GiB"), verdict["next"])
        self.assertIn("75.0 GiB reserved, 15.0 GiB of that unused (largest block 9.0 GiB)",
                      " ".join(self.memory(self.out).split()))

    def test_without_looks(self):
        self.run_xpurun("--", "/bin/true")
        run = self.run_xpurun("memory", self.out, out=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn("no rank has looked at its memory", run.stderr)


if __name__ == "__main__":
    xpurun_test.main()
