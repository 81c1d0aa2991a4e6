"""Real hangs of a real training run: four ranks of torchrun with gloo, one of them the culprit."""

import json
import os
import re
import signal
import subprocess
import sys
import unittest

import xpurun_test
from lane import long

TIMEOUT = 3


def fake_cuda_gdb(directory, body):
    """A PATH with this program in front."""
    path = directory / "bin" / "cuda-gdb"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return f"{path.parent}:{os.environ['PATH']}"


@unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
class Hang(xpurun_test.Case):
    def job(self, fault, *xpurun_args, guilty=2, steps=1000, seconds=10, **kwargs):
        return self.run_xpurun("--hang-timeout", TIMEOUT, "--grace", "5s", *xpurun_args, "--",
                               *xpurun_test.torchrun(self.dir / "log", "--guilty", guilty, "--fault", fault,
                                                     "--steps", steps, "--seconds", seconds), **kwargs)

    def check(self, result, kind, state, ranks=(2,)):
        verdict = self.verdict()
        self.assertEqual((verdict["kind"], verdict["ranks"], verdict["state"]), (kind, list(ranks), state),
                         json.dumps(verdict, indent=1) + result.stderr)
        self.assertIn(verdict["headline"], result.stderr)
        self.assertTrue((self.out / "report.html").exists())
        for name in ("python", "native", "merged"):
            self.assertIn("<svg", (self.out / "stacks" / f"{name}.svg").read_text()[:2000])
        return verdict

    def check_readme(self, page, printed):
        """The sample of the README is what the program prints, but for names and numbers."""
        def shapes(text):
            out = []
            for line in text.splitlines():
                for pattern, word in ((r"(report|报告)(: |：)\S+", r"\1\2PATH"), (r"(--format text) \S+", r"\1 PATH"),
                                      (r"\w+ \(ddp_job\.py", "F (ddp_job.py"),
                                      (r"clock_nanosleep \(\S+\)", "F"), (r"\d+(\.\d+)?", "N")):
                    line = re.sub(pattern, word, line)
                # The end of the job, and the sentence once more before it, are those of --on-hang kill.
                # The README's host has no GPU.
                if (line.startswith("xpurun: ") and "--on-hang kill" not in line and line not in out
                        and not line.startswith("xpurun:   GPU ")):
                    out.append(line)
            return out

        sample = re.search(r"^```\n(xpurun: [\s\S]*?)^```", (xpurun_test.SOURCE / page).read_text(), re.M)[1]
        self.assertEqual(shapes(printed), shapes(sample))

    def test_asleep(self):
        result = self.job("sleep", "--on-hang", "kill")
        self.assertEqual(result.returncode, 124, result.stderr)
        verdict = self.check(result, "hang", "stuck")
        self.assertEqual(verdict["level"], "confirmed")
        # The position: the user's own line and its callee.
        self.assertEqual(verdict["where"]["file"].rsplit("/", 1)[-1], "ddp_job.py")
        self.assertEqual(verdict["where"]["callee"], "time.sleep")
        # The culprit becomes still after its peers, so the peers reach the timeout first.
        self.assertGreaterEqual(verdict["seconds"], TIMEOUT - 1)
        self.assertLessEqual(verdict["seconds"], TIMEOUT + 3)
        # The waiting ranks and their calls.
        self.assertEqual([w["ranks"] for w in verdict["waiting"]], [[0, 1, 3]])
        self.assertIn("ddp_job.py", verdict["waiting"][0]["where"]["file"])
        self.assertRegex(result.stderr, r"xpurun: hang: rank 2 is stuck in \w+ \(ddp_job.py:\d+: time.sleep\) since \d")
        self.check_readme("README.md", result.stderr)
        told = self.run_xpurun("report", self.out, "--quiet", "--json", "--lang", "zh", out=False)
        chinese = json.loads(told.stdout)["translation"]
        source = re.findall(r"^xpurun:   ([> ]   \d+  .*)$", result.stderr, re.M)
        following = f"下一步：{chinese['next_text']}：{chinese['next_command']}"
        self.check_readme("README.zh.md", "\n".join(
            [f"xpurun: 挂起：{chinese['title']}", f"xpurun:   {chinese['headline']}", "xpurun: 报告：PATH",
             *(f"xpurun:   {line}" for line in [*source, *chinese["evidence"], following])]))
        dump = json.loads((self.out / verdict["dump"] / "dump.json").read_text())
        ranks = [p for p in dump["processes"] if p["role"] == "rank"]
        self.assertEqual([p["status"] for p in ranks], ["ok"] * 4, ranks)
        self.assertTrue(any(p["role"] == "agent" and p["status"] == "ok" for p in dump["processes"]))
        self.assertEqual(len(list((self.out / verdict["dump"]).glob("*.snapshot"))), 5)
        self.assertEqual(self.manifest()["outcome"], "hang")
        self.assertEqual(self.manifest()["world_size"], 4)

    def test_endless_loop(self):
        result = self.job("spin", "--on-hang", "kill", "--busy-timeouts", 3)
        self.assertEqual(result.returncode, 124, result.stderr)
        verdict = self.check(result, "hang", "busy")
        self.assertEqual(verdict["level"], "confirmed")
        # The culprit was suspected at once; the job was ended only after three timeouts.
        self.assertIn("xpurun: stall: rank 2", result.stderr)

    @long
    def test_endless_loop_and_a_debugger_that_takes_longer_than_the_doubt(self):
        """cuda-gdb holds every rank for longer than three timeouts."""
        path = fake_cuda_gdb(
            self.dir, f"exec {sys.executable} {xpurun_test.SOURCE}/tests/e2e/jobs/hold.py {4 * TIMEOUT} $*"
        )
        result = self.job("spin", "--on-hang", "kill", "--busy-timeouts", 3, "--gpu-stacks", "always",
                          env=self.env(PATH=path))
        self.assertEqual(result.returncode, 124, result.stderr)
        verdict = self.check(result, "hang", "busy")
        self.assertEqual(verdict["level"], "confirmed")
        # Held for four timeouts, which do not count as stillness.
        self.assertGreaterEqual(verdict["seconds"], 7 * TIMEOUT)
        self.assertEqual([w["ranks"] for w in verdict["waiting"]], [[0, 1, 3]])

    @long
    def test_endless_loop_without_doubt(self):
        result = self.job("spin", "--on-hang", "kill", "--busy-timeouts", 1)
        self.assertEqual(result.returncode, 124, result.stderr)
        self.assertEqual(self.check(result, "hang", "busy")["level"], "confirmed")
        self.assertNotIn("xpurun: slow", result.stderr)

    def test_stopped(self):
        result = self.job("stop", "--on-hang", "kill")
        self.assertEqual(result.returncode, 124, result.stderr)
        self.check(result, "hang", "stopped")

    @long
    def test_left_early_with_its_connections_open(self):
        result = self.job("exit0", "--on-hang", "kill")
        self.assertEqual(result.returncode, 124, result.stderr)
        self.check(result, "hang", "dead")

    @long
    def test_rank_0_is_not_presumed_innocent(self):
        result = self.job("sleep", "--on-hang", "kill", guilty=0)
        self.assertEqual(result.returncode, 124, result.stderr)
        self.check(result, "hang", "stuck", ranks=[0])

    def test_by_default_it_is_told_and_the_job_goes_on(self):
        p = self.start_xpurun("--hang-timeout", TIMEOUT, "--",
                              *xpurun_test.torchrun(self.dir / "log", "--guilty", 1, "--fault", "stop", "--steps", 60))
        # On a busy machine, ranks that import for longer than the timeout are a stall of their own before.
        self.wait_for(lambda: (self.out / "verdict.json").exists() and self.verdict().get("state") == "stopped",
                      "verdict", 60)
        pid = self.rank_pids()[1]
        self.assertEqual((self.verdict()["kind"], self.verdict()["pid"]), ("hang", pid))
        os.kill(pid, signal.SIGCONT)
        _, stderr = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 0, stderr)
        run = self.manifest()
        *imports, stall = run["stalls"]
        self.assertEqual([one for one in imports if one["verdict"].get("level") == "confirmed"], [])
        self.assertEqual(stall["verdict"]["state"], "stopped")
        self.assertGreater(stall["cleared_s"], 0)
        self.assertEqual(len([d for d in run["dumps"] if d["why"] == "hang"]), len(run["stalls"]))
        self.assertEqual(self.verdict()["kind"], "none")
        # Immediately if the diagnosis is ready before the end of the job, else at the end.
        self.assertRegex(stderr, "progress again|made the job stand still")


class GpuStacks(xpurun_test.Case):
    """A cuda-gdb that only records its start; its output is tested with the parser."""

    def hang(self, *options):
        asked = self.dir / "asked"
        asked.unlink(missing_ok=True)
        path = fake_cuda_gdb(self.dir, f"echo $* > {asked}\n"
                             "echo ' Kernel Parent Dev Grid Status SMs Mask GridDim BlockDim Invocation'\n"
                             "echo '*      0      -   0    7 Active 0x1 (1,1,1) (32,1,1) endless()'")
        self.out = self.dir / f"run{len(options)}"
        result = self.run_xpurun("--hang-timeout", 1, "--on-hang", "kill", *options, "--", xpurun_test.PYTHON, "-c",
                                 "import time; time.sleep(1000)",
                                 env=self.env(PATH=path))
        self.assertEqual(result.returncode, 124, result.stderr)
        (stacks,) = self.out.glob("dumps/1-hang/*.stacks.json")
        return json.loads(stacks.read_text()), asked.exists()

    def test_the_verdict_does_not_wait_for_the_frames_of_the_gpu(self):
        """This cuda-gdb ends only after the verdict; the job is ended afterwards."""
        self.out = self.dir / "run"
        path = fake_cuda_gdb(self.dir, f"while [ ! -e {self.out}/verdict.json ]; do sleep 0.1; done")
        result = self.run_xpurun("--hang-timeout", 1, "--on-hang", "kill", "--gpu-stacks", "always", "--",
                                 xpurun_test.PYTHON, "-c", "import time; time.sleep(1000)", env=self.env(PATH=path))
        self.assertEqual(result.returncode, 124, result.stderr)
        self.assertEqual(self.verdict()["kind"], "hang")
        (stacks,) = self.out.glob("dumps/1-hang/*.stacks.json")
        self.assertNotIn("did not finish", stacks.read_text())

    def test_cuda_gdb_is_asked_on_a_hang_as_far_as_wanted(self):
        stacks, asked = self.hang("--gpu-stacks", "always")
        self.assertTrue(asked)
        self.assertEqual([k["name"] for k in stacks["gpu_kernels"]], ["endless"])
        stacks, asked = self.hang()  # no thread waits inside CUDA
        self.assertFalse(asked)
        self.assertNotIn("gpu_kernels", stacks)


@unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
class NoFalseAlarm(xpurun_test.Case):
    def job(self, fault, **kwargs):
        result = self.run_xpurun("--hang-timeout", 3, "--on-hang", "kill", "--busy-timeouts", "1000", "--",
                                 *xpurun_test.torchrun(self.dir / "log", "--guilty", 2, "--fault", fault, "--steps",
                                                       8, "--seconds", kwargs.get("seconds", 8)))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.verdict()["kind"], "none")
        self.assertNotIn("xpurun: hang:", result.stderr)
        return self.manifest()["stalls"], result.stderr

    def test_healthy(self):
        stalls, stderr = self.job("none")
        self.assertEqual((stalls, [l for l in stderr.splitlines() if l.startswith("xpurun")]), ([], []))

    @long
    def test_one_rank_slow_for_longer_than_the_timeout(self):
        stalls, stderr = self.job("slow")
        self.assertEqual([i["verdict"]["state"] for i in stalls], ["busy"])
        self.assertIn("xpurun: stall: rank 2", stderr)

    @long
    def test_long_checkpoint(self):
        stalls, _ = self.job("checkpoint")
        self.assertEqual({i["verdict"]["state"] for i in stalls} - {"busy"}, set())
        self.assertEqual({i["verdict"]["level"] for i in stalls} - {"suspected"}, set())

    @long
    def test_long_c_call_on_all_ranks(self):
        stalls, _ = self.job("longcall", seconds=8)
        self.assertGreaterEqual(len(stalls), 1)
        self.assertEqual({i["verdict"]["id"] for i in stalls}, {"hang.long_call"})
        self.assertEqual({i["verdict"]["level"] for i in stalls}, {"suspected"})

    def test_waiting_for_another_node_to_join(self):
        command = [xpurun_test.PYTHON, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc_per_node", "1",
                   "--rdzv_backend", "c10d", "--rdzv_endpoint", "127.0.0.1:0", str(xpurun_test.JOB)]
        p = self.start_xpurun("--hang-timeout", 1, "--on-hang", "kill", "--", *command)
        in_store = self.wait_for(lambda: [t for t in self.manifest()["processes"] if t["python"]]
                                 if (self.out / "run.json").exists() else None, "launcher")
        self.assertEqual(len(in_store), 1)
        with self.assertRaises(subprocess.TimeoutExpired):
            p.wait(timeout=8)
        p.send_signal(signal.SIGTERM)
        _, stderr = p.communicate(timeout=60)
        self.assertEqual(self.manifest()["stalls"], [], stderr)
        self.assertNotIn("hang", stderr)


if __name__ == "__main__":
    xpurun_test.main()
