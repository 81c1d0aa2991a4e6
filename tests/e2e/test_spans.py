"""Spans of the stages of training steps, seen by Python's bootstrap."""

import json
import subprocess
import unittest

import span_file
import xpurun_test
from lane import long
from xpurun_test import PYTHON, SOURCE

JOB = SOURCE / "tests" / "e2e" / "jobs" / "stages_job.py"
RULES = JOB.with_name("inferred_job.py")
STAGES = ["data", "forward", "backward", "communication", "optimizer"]


def line_of(comment):
    lines = JOB.read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith("  # " + comment))


@unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
class Spans(xpurun_test.Case):
    def job(self, how, *options, **more):
        env = self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", RENDEZVOUS=str(self.dir / f"store-{how}"), **more)
        return self.run_xpurun(*options, "--", PYTHON, JOB, how, env=env)

    def bare(self, how):
        env = self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", RENDEZVOUS=str(self.dir / f"bare-{how}"))
        return subprocess.run([PYTHON, JOB, how], env=env, cwd=self.dir, capture_output=True, text=True, timeout=90)

    def files(self):
        return sorted(self.out.glob("ranks/*/spans-*.xsp"))

    def check_spans(self, file):
        main = [s for s in file["spans"] if s["stage"] != "garbage"]
        # Two epochs of two steps, then what comes once. The end of an epoch is a wait for data too.
        epoch = [stage for _ in range(2) for stage in STAGES] + ["data"]
        self.assertEqual([s["stage"] for s in main[:28]],
                         epoch * 2 + ["data", "evaluation"] * 2 + ["data", "checkpoint"])
        places = {s["stage"]: s["place"] for s in main[:22]}
        for stage in STAGES:
            # What is inferred begins where the batch was returned.
            line = line_of("data" if stage == "forward" else stage)
            self.assertEqual(places[stage], f"stages_job.py:{line} (train)")
        self.assertEqual(main[23]["place"], f"stages_job.py:{line_of('evaluation')} (evaluate)")
        self.assertEqual([s["name"] for s in main[:11]],
                         ["DataLoader.__next__", "forward (inferred)", "backward", "all_reduce", "SGD.step"] * 2 +
                         ["DataLoader.end"])
        self.assertEqual(main[23]["name"], "evaluation (inferred)")
        self.assertEqual({s["stage"] for s in main if s["inferred"]}, {"forward", "evaluation"})
        for forward, backward in zip(main[1:10:5], main[2:10:5]):
            self.assertEqual(forward["begin_ns"] + forward["duration_ns"], backward["begin_ns"])
        for span in main[:10]:
            least_ms = {"data": 40, "forward": 30}.get(span["stage"], 0)
            self.assertGreaterEqual(span["duration_ns"], least_ms * 10**6)
            self.assertLess(span["duration_ns"], 20 * 10**9)
            # It slept all the time.
            if least_ms:
                self.assertLess(span["cpu_ns"], span["duration_ns"] - (least_ms - 5) * 10**6)
            self.assertEqual(span["thread"], file["header"]["pid"])
        for before, after in zip(main, main[1:]):
            self.assertLessEqual(before["begin_ns"] + before["duration_ns"], after["begin_ns"])
        calls = [s for s in main if s["stage"] == "communication"]
        self.assertEqual([(s["sequence"], s["bytes"]) for s in calls], [(n, 4) for n in range(1, 5)])
        self.assertEqual(len({s["group"] for s in calls}), 1)
        self.assertRegex(calls[0]["group"], r"^[0-9a-f]{16}\.0$")

    def test_every_stage_in_order_with_its_place(self):
        result = self.job("end")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(len(self.files()), 1)
        file = span_file.load(self.files()[0])
        self.assertEqual((file["header"]["rank"], file["complete"], file["lost"]), (0, True, 0))
        self.check_spans(file)
        places = {(s["name"], s["place"]) for s in file["spans"]}
        for name, comment in (("torch.save", "save"), ("torch.load", "load"), ("gc.collect(2)", "garbage")):
            self.assertIn((name, f"stages_job.py:{line_of(comment)} (main)"), places)
        self.assertGreater(len(file["loads"]), 0)
        self.assertGreater(file["loads"][-1]["cpu_ns"], 10**8)

    def test_a_killed_rank_keeps_its_spans(self):
        self.job("kill")
        self.assertEqual(self.verdict()["signal"], 9)
        file = span_file.load(self.files()[0])
        self.check_spans(file)
        # Its last span is the last thing that it did.
        self.assertIn("(main)", file["spans"][-1]["place"])
        self.assertEqual(file["spans"][-1]["stage"], "optimizer")

    def test_printed(self):
        self.job("end")
        self.assertEqual(self.run_xpurun("events", self.out, out=False).stdout.splitlines()[1].split(),
                         ["begin", "(UTC)", "duration", "(us)", "CPU", "(us)", "stage", "call"])
        text = self.run_xpurun("events", self.out, out=False).stdout
        self.assertIn(f"communication all_reduce #1 4 B at stages_job.py:{line_of('communication')} (train)", text)
        lines = [json.loads(line) for line in
                 self.run_xpurun("events", "--json", self.files()[0], out=False).stdout.splitlines()]
        self.assertEqual((lines[0]["schema"], lines[0]["rank"]), ("xpurun.spans/1", 0))
        self.assertEqual(sum("stage" in line for line in lines), lines[0]["spans"])
        self.assertEqual(sum("run_delay_ns" in line for line in lines), lines[0]["loads"])

    def test_waits_for_calls_that_have_returned(self):
        packages = self.dir / "site-packages"
        packages.mkdir()
        (packages / "trainer.py").write_text("def step(optimizer):\n    optimizer.step()\n")
        (self.dir / "ring.py").write_text("""import os, subprocess, sys, time
if "RANK" not in os.environ:
    ranks = [subprocess.Popen([sys.executable, __file__], env=os.environ | {"RANK": str(r)}) for r in range(2)]
    sys.exit(max(one.wait() for one in ranks))
import torch, torch.distributed as dist, trainer
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + os.environ["RENDEZVOUS"], rank=rank, world_size=2)
block = torch.ones(4)
while rank == 1 and not os.path.exists("waits"):
    time.sleep(0.01)
time.sleep(0.3 if rank == 1 else 0)
work = dist.isend(block, 1 - rank) if rank == 1 else dist.irecv(block, 1 - rank)
open("waits", "w").close()
work.wait()
trainer.step(torch.optim.SGD([torch.ones(1, requires_grad=True)], 0.1))
dist.all_reduce(block, async_op=True).wait()
""")
        env = self.env(PYTHONPATH=str(packages), RENDEZVOUS=str(self.dir / "ring-store"))
        result = self.run_xpurun("--", PYTHON, self.dir / "ring.py", env=env)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        file = span_file.load(self.out / "ranks" / "0" / "spans-1.xsp")
        self.assertEqual(file["backend"], "gloo")
        self.run_xpurun("timeline", "--format", "chrome", "-o", self.dir / "json", self.out, out=False)
        for rank in range(2):
            trace = json.loads((self.dir / "json" / f"rank-{rank}.json").read_text())
            self.assertEqual(trace["distributedInfo"], {"backend": "gloo", "rank": rank, "world_size": 2})
        spans = file["spans"]
        waits = [s for s in spans if s["name"] == "Work.wait" and s["place"] == "ring.py:14 (<module>)"]
        self.assertEqual([(s["stage"], "group" in s) for s in waits], [("communication", False)])
        self.assertGreater(waits[0]["duration_ns"], 10**6)
        # The program is near; the package is no place.
        self.assertEqual([s["place"] for s in spans if s["stage"] == "optimizer"], ["ring.py:15 (<module>)"])

    def test_gpu_memory_by_pytorchs_allocator(self):
        script = self.dir / "gpu.py"
        # Without a GPU, the functions that xpurun asks are replaced.
        script.write_text("""import time, types, torch
torch.cuda.is_initialized = lambda: True
torch.cuda.current_device = lambda: 0
torch.cuda.get_device_properties = lambda device: types.SimpleNamespace(total_memory=80 << 30)
kept = 1 << 30
def stats(device):
    return {"allocated_bytes": {"all": {"current": kept, "peak": 2 * kept}},
            "reserved_bytes": {"all": {"current": 3 * kept}}}
torch.cuda.memory.memory_stats_as_nested_dict = stats
w = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([w], lr=0.1)
end = time.monotonic() + 4
while time.monotonic() < end:
    w.sum().backward()
    optimizer.step()
    time.sleep(0.05)
raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")
""")
        self.run_xpurun("--", PYTHON, script, env=self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1"))
        lines = [json.loads(line) for line in
                 self.run_xpurun("events", "--json", self.files()[0], out=False).stdout.splitlines()]
        loads = [line for line in lines if "gpu_allocated_bytes" in line]
        self.assertGreater(len(loads), 0)
        self.assertEqual([loads[-1][f"gpu_{what}_bytes"] >> 30 for what in ("allocated", "peak", "reserved", "total")],
                         [1, 2, 3, 80])
        self.assertIn("before, PyTorch had allocated at most 2.0 GiB of the GPU's 80.0 GiB",
                      "\n".join(self.verdict()["evidence"]))

    @long
    def test_the_program_notices_nothing(self):
        for how in ("end", "bad_data", "bad_forward", "bad_backward", "bad_optimizer"):
            self.out = self.dir / f"run-{how}"
            hooked, bare = self.job(how), self.bare(how)
            self.assertEqual((hooked.returncode, hooked.stdout), (bare.returncode, bare.stdout), how)
            printed = [line for line in hooked.stderr.splitlines() if not line.startswith("xpurun: ")]
            self.assertEqual(printed, bare.stderr.splitlines(), how)

    def test_what_is_inferred(self):
        self.check_rules(self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1"))

    def test_marks(self):
        """A folder named xpurun is not a module of the program; a file is."""
        env = self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
        (self.dir / "path" / "xpurun").mkdir(parents=True)
        self.check_rules(env | {"PYTHONPATH": str(self.dir / "path")})
        self.out = self.dir / "without"
        without = self.run_xpurun("--no-python-hooks", "--", PYTHON, RULES, env=env)
        self.assertEqual((without.returncode, without.stdout), (0, "no xpurun\n"))
        (self.dir / "path" / "xpurun.py").write_text("def step(): print('own')\n")
        (self.dir / "path" / "xpurun").rmdir()
        self.out = self.dir / "own"
        own = self.run_xpurun("--", PYTHON, RULES, env=env | {"PYTHONPATH": str(self.dir / "path")})
        self.assertEqual((own.returncode, own.stdout), (0, "own\n" * 2))

    def check_rules(self, env):
        result = self.run_xpurun("--", PYTHON, RULES, env=env)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        spans = [s for s in span_file.load(self.files()[0])["spans"] if s["stage"] != "garbage"]
        expected = [line.split("# ")[1].split(", ") for line in RULES.read_text().splitlines() if "()  # " in line]
        self.assertEqual([s["stage"] for s in spans], [stage for line in expected for stage in line])
        marks = [s for s in spans if s["stage"] == "mark"]
        self.assertEqual([(s["name"], s["duration_ns"]) for s in marks], [("step", 0)] * 2)
        self.assertRegex(marks[0]["place"], r"^inferred_job\.py:\d+ \(main\)$")

    def test_switched_off(self):
        for options in (["--timing=off"], ["--no-python-hooks"], ["--events=off"]):
            self.out = self.dir / f"run{options[0]}"
            self.assertEqual(self.job("end" + options[0], *options).returncode, 0)
            self.assertEqual(self.files(), [])


if __name__ == "__main__":
    xpurun_test.main()
