"""xpurun attach: jobs that were started without xpurun are watched, judged and left as they are."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

import xpurun_test
from xpurun_test import PYTHON, SOURCE

JOB = SOURCE / "tests/e2e/jobs/small_launcher.py"
WORKS = """
import time
print("ready", flush=True)
def load(i):
    return list(range(i % 1000))
def step(data):
    time.sleep(0.005)
    return sum(data)
end = time.monotonic() + 60
while time.monotonic() < end:
    step(load(int(time.monotonic() * 1000)))
"""
SLEEPER = "import time\nprint('ready', flush=True)\ntime.sleep({})"


def state(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def tracer(pid):
    return int(pathlib.Path(f"/proc/{pid}/status").read_text().split("TracerPid:")[1].split()[0])


class Attach(xpurun_test.Case):
    def start(self, *command, **kwargs):
        process = subprocess.Popen(list(map(str, command)), cwd=self.dir, env=self.env(), text=True,
                                   stdout=subprocess.PIPE, **kwargs)
        self.started.append(process)
        return process

    def start_job(self, fault):
        """The launcher, with three ranks that are ready."""
        place = self.dir / "ranks"
        place.mkdir()
        launcher = self.start(PYTHON, JOB, fault, place)
        self.wait_for(lambda: len(list(place.glob("ready-*"))) == 3, "ranks")
        return launcher

    def attach(self, *args):
        return self.start_xpurun("attach", "--poll", "200ms", "--out", self.out, *args, out=False)

    def finish(self, watch):
        stdout, stderr = watch.communicate(timeout=60)
        self.assertEqual(stdout, "")
        return watch.returncode, stderr

    def test_a_hang_is_named_and_the_job_is_left(self):
        launcher = self.start_job("stopped")
        watch = self.attach("--hang-timeout", "2", launcher.pid)
        self.wait_for(lambda: (self.out / "verdict.json").exists() and self.verdict()["kind"] == "hang", "verdict")
        ranks = self.rank_pids()
        self.assertEqual(sorted(ranks), [0, 1, 2])
        watch.send_signal(signal.SIGINT)
        status, stderr = self.finish(watch)
        self.assertEqual(status, 0, stderr)
        verdict, run = self.verdict(), self.manifest()
        self.assertEqual((verdict["ranks"], verdict["state"]), ([1], "stopped"), verdict)
        self.assertIn("load_batch", verdict["sentence"])
        self.assertIn(verdict["headline"], stderr)
        self.assertIn("Ctrl-C leaves the job as it is", stderr)
        self.assertEqual((run["outcome"], run["main_pid"]), ("detached", launcher.pid))
        self.assertEqual(run["command"][-2:], ["stopped", str(self.dir / "ranks")])
        self.assertEqual(run["cwd"], str(self.dir))
        self.assertTrue((self.out / "report.html").exists())
        self.assertIsNone(launcher.poll())
        self.assertEqual({rank: (state(pid), tracer(pid)) for rank, pid in ranks.items()},
                         {0: ("S", 0), 1: ("T", 0), 2: ("S", 0)})

    def test_now_tells_where_a_job_stands(self):
        launcher = self.start_job("stopped")
        begun = time.monotonic()
        status, stderr = self.finish(self.start_xpurun("attach", "--now", "--out", self.out, launcher.pid, out=False))
        self.assertLess(time.monotonic() - begun, 20, "seconds; about 3 on an idle machine")
        self.assertEqual(status, 0, stderr)
        verdict = self.verdict()
        self.assertEqual((verdict["id"], verdict["ranks"], verdict["state"]), ("running.now", [1], "stopped"), verdict)
        self.assertRegex(stderr, r"xpurun: running: rank 1 .*load_batch")
        self.assertEqual({state(pid) for pid in self.rank_pids().values()}, {"S", "T"})
        self.assertIsNone(launcher.poll())

    def test_now_of_a_job_that_works(self):
        job = self.start(PYTHON, "-c", WORKS)
        self.assertEqual(job.stdout.readline(), "ready\n")
        status, stderr = self.finish(self.start_xpurun("attach", "--now", "--out", self.out, job.pid, out=False))
        self.assertEqual((status, self.verdict()["ranks"]), (0, []), stderr)
        self.assertIn("no rank stood still", stderr)

    def test_the_first_failure_is_named(self):
        launcher = self.start_job("exit")
        status, stderr = self.finish(self.attach(launcher.pid))
        verdict = self.verdict()
        self.assertEqual((verdict["kind"], verdict["ranks"]), ("exit", [1]), stderr)
        self.assertEqual(status, 1, stderr)
        self.assertIn(verdict["headline"], stderr)

    def test_a_hang_may_be_ended(self):
        launcher = self.start_job("stopped")
        status, stderr = self.finish(self.attach("--hang-timeout", "2", "--on-hang", "kill", "--grace", "1",
                                                 launcher.pid))
        self.assertEqual(status, 124, stderr)
        launcher.wait(10)
        self.assertEqual(list(self.rank_pids()), [])

    def test_only_the_command_line_may_end_the_job(self):
        launcher = self.start_job("stopped")
        watch = self.start_xpurun("attach", "--poll", "200ms", "--hang-timeout", "1", launcher.pid,
                                  out=False, env=self.env(XPURUN_ON_HANG="kill", XPURUN_OUT=str(self.out)))
        self.wait_for(lambda: (self.out / "verdict.json").exists() and self.verdict()["kind"] == "hang", "verdict")
        watch.terminate()
        self.assertEqual(self.finish(watch)[0], 0)
        self.assertIsNone(launcher.poll())

    def test_processes_without_a_common_parent(self):
        pids = []
        for _ in range(2):
            process = self.start(sys.executable, "-c", SLEEPER.format(1000))
            process.stdout.readline()
            pids.append(process)
        watch = self.attach("--pid", pids[0].pid, "-p", pids[1].pid)
        self.wait_for(lambda: (self.out / "run.json").exists() and len(self.manifest()["processes"]) > 0, "processes")
        pids[0].kill()
        pids[0].wait()
        self.assertIsNone(watch.poll())
        pids[1].kill()
        pids[1].wait()
        status, stderr = self.finish(watch)
        self.assertIn(self.verdict()["kind"], ("none", "crash"), stderr)

    def test_the_children_of_a_process(self):
        launcher = self.start_job("stopped")
        watch = self.attach("--hang-timeout", "2", "--children", launcher.pid)
        self.wait_for(lambda: (self.out / "verdict.json").exists() and self.verdict()["kind"] == "hang", "verdict")
        self.assertEqual(sorted(self.rank_pids()), [0, 1, 2])
        self.assertEqual(self.verdict()["ranks"], [1])
        watch.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(watch)[0], 0)
        self.assertIsNone(launcher.poll())

    @unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
    def test_a_job_of_torchrun_and_top_on_it(self):
        with (self.dir / "output").open("w") as output:
            job = subprocess.Popen(xpurun_test.torchrun(self.dir / "log", "--guilty", 1, "--fault", "sleep", "--steps",
                                                        1000, "--seconds", 600, ranks=2),
                                   cwd=self.dir, env=self.env(), stdout=output, stderr=output)
        self.started.append(job)
        watch = self.attach("--hang-timeout", "3", job.pid)
        self.wait_for(lambda: (self.out / "verdict.json").exists() and self.verdict()["kind"] == "hang", "verdict")
        verdict = self.verdict()
        self.assertEqual((verdict["ranks"], verdict["waiting"][0]["ranks"]), ([1], [0]), verdict)
        self.assertIn("ddp_job.py", verdict["sentence"])
        # The file is written before the supervisor has the verdict.
        self.wait_for(lambda: re.search(r"(?m)^ +0  .*waiting [\s\S]*^ +1! .*stuck .* ddp_job\.py:\d+",
                                        self.run_xpurun("top", "--once", self.out, out=False).stdout), "culprit in top")
        watch.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(watch)[0], 0)
        self.assertIsNone(job.poll())

    def test_a_job_that_ends_well(self):
        process = self.start(sys.executable, "-c", SLEEPER.format(2))
        process.stdout.readline()
        status, stderr = self.finish(self.attach(process.pid))
        self.assertEqual(status, 0, stderr)
        self.assertEqual(self.verdict()["kind"], "none", stderr)

    def test_after_the_death_of_xpurun(self):
        place = self.dir / "ranks"
        place.mkdir()
        first = self.start_xpurun("--", PYTHON, str(JOB), "stopped", str(place), out=False)
        self.wait_for(lambda: len(list(place.glob("ready-*"))) == 3, "ranks")
        run = next((self.dir / "xpurun-runs").glob("2*"))
        main = self.wait_for(lambda: json.loads((run / "run.json").read_text()).get("main_pid"), "command")
        status, stderr = self.finish(self.attach(main))
        self.assertEqual(status, 125)
        self.assertIn(f"xpurun (pid {first.pid}) started it", stderr)
        first.kill()
        first.wait()
        watch = self.attach("--hang-timeout", "2", main)
        self.wait_for(lambda: (self.out / "verdict.json").exists() and self.verdict()["kind"] == "hang", "verdict")
        self.assertEqual(self.verdict()["ranks"], [1])
        watch.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(watch)[0], 0)

    def test_what_cannot_be_watched(self):
        gone = self.start("true")
        gone.wait()
        for words, status, text in ((["x"], 125, "not a process id"), ([], 125, "no process id"),
                                    (["--children", "x"], 125, "not a process id"),
                                    ([str(gone.pid)], 125, "E-NO-PROCESS"),
                                    (["--pid", str(gone.pid)], 125, "E-NO-PROCESS"),
                                    (["--pid", "1", "--slurm-step", "1.0"], 125, "or --slurm-step, not both"),
                                    (["--on-hang", "restart", str(os.getpid())], 125, "xpurun started"),
                                    (["--logs", "1"], 125, "belongs to xpurun run")):
            with self.subTest(words=words):
                result = self.run_xpurun("attach", *words, out=False)
                self.assertEqual(result.returncode, status, result.stderr)
                self.assertIn(text, result.stderr)
        self.assertEqual(list((self.dir).glob("xpurun-runs*")), [])

    def start_tasks(self, names_of, count):
        """Ranks without a launcher, distinguished by their environment."""
        tasks = []
        for rank in range(count):
            names = {name: str(value) for name, value in names_of(rank).items()}
            task = subprocess.Popen([PYTHON, "-c", SLEEPER.format(1000)], env=self.env(**names),
                                    stdout=subprocess.PIPE, cwd=self.dir, text=True)
            self.started.append(task)
            task.stdout.readline()
            tasks.append(task)
        return tasks

    def start_step(self, job, step, count):
        """As slurmstepd starts tasks."""
        return self.start_tasks(lambda rank: {"SLURM_JOB_ID": job, "SLURM_STEP_ID": step, "SLURM_PROCID": rank,
                                              "SLURM_LOCALID": rank, "SLURM_NTASKS": count}, count)

    def fake_scontrol(self, script):
        """The environment of a host whose scontrol is this shell script."""
        place = self.dir / "bin"
        place.mkdir(exist_ok=True)
        (place / "scontrol").write_text("#!/bin/sh\n" + script)
        (place / "scontrol").chmod(0o755)
        return self.env(PATH=f"{place}:{os.environ['PATH']}", HOME=str(self.dir))

    def test_a_slurm_step_by_its_environment(self):
        tasks = self.start_step(990042, 3, 2)
        self.start_step(990042, 4, 1)
        tasks[1].send_signal(signal.SIGSTOP)
        watch = self.attach("--hang-timeout", "2", "--slurm-step", "990042.3")
        self.wait_for(lambda: (self.out / "verdict.json").exists() and self.verdict()["kind"] == "hang", "verdict")
        self.assertEqual(self.verdict()["state"], "stopped")
        self.assertEqual(self.verdict()["ranks"], [1])
        self.assertEqual(sorted(p["pid"] for p in self.manifest()["processes"]), sorted(t.pid for t in tasks))
        watch.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(watch)[0], 0)
        self.assertEqual([state(t.pid) for t in tasks], ["S", "T"])

    def test_a_slurm_step_by_scontrol(self):
        tasks = self.start_tasks(lambda rank: {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2}, 2)
        rows = "".join(f"echo '{t.pid}     990042   5        {n}       {n}'\n" for n, t in enumerate(tasks))
        env = self.fake_scontrol(f"[ \"$*\" = 'listpids 990042' ] || exit 1\n"
                                 f"echo 'PID      JOBID    STEPID   LOCALID GLOBALID'\n{rows}")
        watch = self.start_xpurun("attach", "--poll", "200ms", "--out", self.out, "--slurm-step", "990042.5",
                                  out=False, env=env)
        self.wait_for(lambda: (self.out / "run.json").exists() and len(self.manifest()["processes"]) == 2, "processes")
        self.assertEqual(sorted(p["pid"] for p in self.manifest()["processes"]), sorted(t.pid for t in tasks))
        watch.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(watch)[0], 0)

    def test_no_such_slurm_step(self):
        self.start_step(990042, 3, 1)
        silent = "echo 'PID      JOBID    STEPID   LOCALID GLOBALID'"
        refused = f"{silent}; echo 'There are no steps for job 990043 on node n1.' >&2; exit 1"
        for words, script, text in (
                (["990042.9"], silent, "scontrol lists no process"),
                (["990043"], refused, "scontrol: There are no steps for job 990043 on node n1."),
                (["990043"], "exit 1", "scontrol lists no process"),
                (["990042.x"], silent, "'990042.x' is not JOB or JOB.STEP"),
                (["990042.3", str(os.getpid())], silent, "process ids or --slurm-step, not both")):
            with self.subTest(words=words, script=script):
                result = self.run_xpurun("attach", "--slurm-step", *words, out=False, env=self.fake_scontrol(script))
                self.assertEqual(result.returncode, 125, result.stderr)
                self.assertIn(text, result.stderr)
        missing = self.run_xpurun("attach", "--slurm-step", "990042.9", out=False,
                                  env=self.env(PATH=str(self.dir), HOME=str(self.dir)))
        self.assertIn("no process of Slurm step 990042.9 is on this node", missing.stderr)
        self.assertIn("scontrol is not on PATH", " ".join(missing.stderr.split()))
        self.assertIn("E-NO-PROCESS", missing.stderr)
        self.assertEqual(list(self.dir.glob("xpurun-runs*")), [])

    @unittest.skipIf(os.geteuid() != 0, "needs root, to become another user")
    def test_a_slurm_step_of_another_user(self):
        """Its environment cannot be read; scontrol names its processes, which may not be traced."""
        task = self.start_step(990042, 3, 1)[0]
        self.dir.chmod(0o777)
        for script, name in ((f"echo '{task.pid} 990042 3 0 0'", "E-PTRACE-PERM"), ("exit 1", "E-NO-PROCESS")):
            env = self.fake_scontrol(script)
            result = self.run_xpurun("attach", "--slurm-step", "990042.3", out=False, user=65534, group=65534,
                                     extra_groups=[], env=env)
            self.assertEqual(result.returncode, 125, result.stderr)
            self.assertIn(name, result.stderr)

    @unittest.skipIf(os.geteuid() != 0, "needs root, to become another user")
    def test_without_the_right_to_trace(self):
        process = self.start(sys.executable, "-c", SLEEPER.format(1000))
        process.stdout.readline()
        self.dir.chmod(0o777)
        result = self.run_xpurun("attach", process.pid, out=False, user=65534, group=65534, extra_groups=[],
                                 env=self.env(HOME=str(self.dir)))
        self.assertEqual(result.returncode, 125, result.stderr)
        self.assertIn("E-PTRACE-PERM", result.stderr)


if __name__ == "__main__":
    xpurun_test.main()
