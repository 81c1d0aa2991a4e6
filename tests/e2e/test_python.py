"""Reports of Python's bootstrap: exceptions, exit calls, calls of torch.distributed."""

import json
import os
import re
import signal
import socket
import subprocess
import unittest

import xpurun_test
from xpurun_test import PYTHON

JOB = xpurun_test.SOURCE / "tests" / "e2e" / "jobs" / "gloo_calls.py"

SCRIPT = """
import os, sys, threading, time
def collate(batch):
    return batch["label"]
def run():
    if sys.argv[1] == "raise":
        try:
            collate({})
        except KeyError as e:
            raise ValueError("a bad batch") from e
    if sys.argv[1] == "thread":
        thread = threading.Thread(target=collate, args=({},), name="feeder")
        thread.start()
        thread.join()
        sys.exit(5)
    if sys.argv[1] == "text":
        sys.exit("no data for <rank>")
    if sys.argv[1] == "os":
        os._exit(9)
    if sys.argv[1] == "memory":
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.15 GiB "
                           "of which 10.00 MiB is free. Including non-PyTorch memory, this process has 79.10 GiB "
                           "memory in use. Of the allocated memory 77.00 GiB is allocated by PyTorch, and 500.00 MiB "
                           "is reserved by PyTorch but unallocated.")
run()
"""


class Ends(xpurun_test.Case):
    def job(self, how, *options):
        path = self.dir / "job.py"
        path.write_text(SCRIPT)
        env = self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
        result = self.run_xpurun(*options, "--", PYTHON, path, how, env=env)
        return result, self.verdict()

    def test_exception(self):
        result, verdict = self.job("raise")
        self.assertEqual((verdict["id"], verdict["kind"], result.returncode), ("exit.exception", "exception", 1))
        self.assertIn("raised ValueError: a bad batch at job.py:10 (in run)", verdict["sentence"])
        self.assertEqual((verdict["where"]["function"], verdict["where"]["line"]), ("run", 10))
        self.assertIn("raised from KeyError: 'label' at job.py:4 (in collate)", verdict["evidence"])
        page = (self.out / "report.html").read_text()
        self.assertIn("The above exception was the direct cause", page)
        self.assertIn("return batch[", page)

    def test_exception_of_a_thread_before_an_exit(self):
        result, verdict = self.job("thread")
        self.assertEqual((verdict["id"], verdict["exit_code"], result.returncode), ("exit.error", 5, 5))
        self.assertIn("called sys.exit(5) at job.py:15 (in run)", verdict["sentence"])
        self.assertTrue([line for line in verdict["evidence"]
                         if "thread feeder of rank 0 raised KeyError: 'label' at job.py:4 (in collate)" in line],
                        verdict["evidence"])

    def test_exit_with_a_text(self):
        result, verdict = self.job("text")
        self.assertEqual((verdict["kind"], result.returncode), ("exit", 1))
        self.assertIn("called sys.exit('no data for <rank>') at job.py:17 (in run)", verdict["sentence"])
        self.assertEqual(verdict["where"]["line"], 17)

    def test_exit_without_python(self):
        result, verdict = self.job("os")
        self.assertEqual((verdict["kind"], verdict["exit_code"], result.returncode), ("exit", 9, 9))
        self.assertIn("called os._exit(9) at job.py:19 (in run)", verdict["sentence"])

    def test_cuda_out_of_memory(self):
        _, verdict = self.job("memory")
        self.assertIn("CUDA out of memory (20.0 MiB asked for, 10.0 MiB free, 79.1 GiB in all, 77.0 GiB allocated by "
                      "PyTorch, 500 MiB reserved and unused)", verdict["sentence"])
        self.assertIn("expandable_segments", verdict["next"])

    def test_a_port_in_use(self):
        code = ("import socket, sys\nport = int(sys.argv[1])\ntry:\n    socket.socket().bind(('127.0.0.1', port))\n"
                "except OSError as e:\n"
                "    raise RuntimeError(f'bind to [::]:{port} (errno: 98 - {e.strerror})') from e")
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            self.assertEqual(self.run_xpurun("--", PYTHON, "-c", code, port).returncode, 1)
        verdict = self.verdict()
        self.assertIn(f"RuntimeError: port {port} is in use by pid {os.getpid()} (python", verdict["sentence"])
        self.assertIn(f"end pid {os.getpid()}", verdict["next"])

    def test_switched_off(self):
        for options, env in ((["--no-python-hooks"], {}), ([], {"XPURUN_PYTHON_HOOKS": "off"})):
            path = self.dir / "job.py"
            path.write_text(SCRIPT)
            self.out = self.dir / f"run{len(options)}"
            self.run_xpurun(*options, "--", PYTHON, path, "raise", env=self.env(**env))
            self.assertEqual((self.verdict()["kind"], self.manifest()["exceptions"]), ("exit", []))

    def test_secrets_are_masked(self):
        code = "password = 'hunter2hunter2'; raise ValueError('https://u:hunter2hunter2@host/x')"
        self.run_xpurun("--", PYTHON, "-c", code)
        exceptions = self.manifest()["exceptions"]
        self.assertEqual(len(exceptions), 1)
        self.assertNotIn("hunter2", json.dumps(exceptions))


# One of two ranks ends its program in the middle.
LEAVES = """
import multiprocessing as mp, os, sys, time
def finish(how):
    if how == "exit":
        sys.exit(0)
    if how == "quit":
        exit(3)
    if how == "os":
        os._exit(0)
    raise SystemExit(3)
def train(rank, barrier, how):
    for step in range(20):
        time.sleep(0.1)
        if rank == 1 and step == 15:
            finish(how)
        barrier.wait()
if __name__ == "__main__":
    barrier = mp.Barrier(2)
    ranks = [mp.Process(target=train, args=(r, barrier, sys.argv[1])) for r in range(2)]
    [r.start() for r in ranks]; [r.join() for r in ranks]
"""


class Leaves(xpurun_test.Case):
    """Who has left the others, with which status, and at which line."""

    def test_the_line_of_the_exit(self):
        script = self.dir / "train.py"
        script.write_text(LEAVES)
        told = {"exit": r"left early \(called sys\.exit\(0\) at train\.py:5 \(in finish\)\) ",
                "quit": r"called sys\.exit\(3\) at train\.py:7 \(in finish\) ",
                "os": r"left early \(called os\._exit\(0\) at train\.py:9 \(in finish\)\) ",
                "raise": r"exited with status 3, last seen in train \(train\.py:1\d"}
        runs = {how: self.start_xpurun("--out", self.dir / how, "--hang-timeout", 2, "--on-hang", "kill", "--", PYTHON,
                                       script, how, out=False) for how in told}
        for how, run in runs.items():
            with self.subTest(how):
                said = run.communicate(timeout=60)[1]
                self.out = self.dir / how
                verdict = self.verdict()
                detail = json.dumps(verdict, indent=1) + said
                self.assertEqual((run.returncode, verdict["kind"], verdict["ranks"]), (124, "hang", [1]), detail)
                self.assertRegex(verdict["sentence"], "rank 1 " + told[how] + r".*s ago; rank 0 waits for it", detail)
                self.assertEqual(verdict["where"]["function"], "train" if how == "raise" else "finish", detail)


# A launcher that starts a rank on request, and sees its end before xpurun can find the rank.
LAUNCHER = """
import os, pathlib, subprocess, sys, time
directory = pathlib.Path(sys.argv[1])
(directory / "ready").touch()
while not (directory / "go").exists():
    time.sleep(0.01)
env = {**os.environ, "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4"}
status = subprocess.run([sys.executable, directory / "job.py", sys.argv[2]], env=env).returncode
(directory / "gone").touch()
sys.exit(status)
"""


class Departed(xpurun_test.Case):
    """A rank that began and ended between two polls of xpurun."""

    def job(self, how):
        (self.dir / "job.py").write_text(SCRIPT)
        (self.dir / "launcher.py").write_text(LAUNCHER)
        xpurun = self.start_xpurun("--", PYTHON, self.dir / "launcher.py", self.dir, how)
        self.wait_for((self.dir / "ready").exists, "launcher")
        os.kill(xpurun.pid, signal.SIGSTOP)
        (self.dir / "go").touch()
        self.wait_for((self.dir / "gone").exists, "end of the rank")
        os.kill(xpurun.pid, signal.SIGCONT)
        xpurun.communicate(timeout=60)
        return self.verdict()

    def test_every_launchers_variables_are_told(self):
        header = (xpurun_test.SOURCE / "common/wire/identity.h").read_text()
        table = header[header.index("kIdentityVariables[]"):]
        table = table[:table.index("};")]
        module = (xpurun_test.SOURCE / "preload/python/xpurun_exceptions.py").read_text()
        names = module[module.index("IDENTITY = "):module.index("PATIENCE_S")]
        self.assertEqual(set(re.findall(r'"(\w+)"', names)), set(re.findall(r'"(\w+)"', table)))

    def test_its_exception_is_the_verdict(self):
        verdict = self.job("raise")
        self.assertEqual((verdict["id"], verdict["ranks"]), ("exit.exception", [3]))
        self.assertIn("raised ValueError: a bad batch at job.py:10 (in run)", verdict["sentence"])
        rank = [p for p in self.manifest()["processes"] if p["role"] == "rank"]
        self.assertEqual([(p["rank"], p["local_rank"], p["identity"]) for p in rank], [(3, 1, "torchrun")])

    def test_its_exit_is_the_verdict(self):
        verdict = self.job("text")
        self.assertEqual((verdict["kind"], verdict["ranks"], verdict["exit_code"]), ("exit", [3], 1))
        self.assertIn("called sys.exit('no data for <rank>') at job.py:17 (in run)", verdict["sentence"])


ERROR_FILE = """
import json, os, sys
callstack = ('Traceback (most recent call last):\\n  File "/t/train.py", line 9, in main\\n    step()\\n'
             'ValueError: a bad batch')
message = {"message": "ValueError: a bad batch", "extraInfo": {"py_callstack": callstack, "timestamp": "1700000000"}}
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
    json.dump({"message": message}, file)
sys.exit(1)
"""


class WithoutBootstrap(xpurun_test.Case):
    def test_torchelastics_error_file_tells_instead(self):
        path = self.dir / "job.py"
        path.write_text(ERROR_FILE)
        file = self.dir / "error.json"
        env = self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", TORCHELASTIC_ERROR_FILE=str(file))
        self.run_xpurun("--", PYTHON, "-I", path, env=env)
        verdict = self.verdict()
        self.assertEqual(verdict["id"], "exit.exception")
        self.assertIn("raised ValueError: a bad batch at train.py:9 (in main)", verdict["sentence"])
        self.assertIn("ValueError: a bad batch", (self.out / "report.html").read_text())
        # A later report must not need the file.
        file.unlink()
        subprocess.run([xpurun_test.PROGRAM, "report", "--quiet", self.out], check=True)
        self.assertEqual(self.verdict()["sentence"], verdict["sentence"])

    def test_the_reason_is_recorded(self):
        self.run_xpurun("--no-python-hooks", "--", "true")
        self.assertEqual(self.manifest()["preload"]["python_reason"], "switched off by --no-python-hooks")
        self.out = self.dir / "second"
        self.run_xpurun("--", "true")
        self.assertEqual(self.manifest()["preload"]["python_reason"], "")
        self.out = self.dir / "third"
        self.run_xpurun("--no-preload", "--", "true")
        self.assertIn("not loaded", self.manifest()["preload"]["python_reason"])


@unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
class Calls(xpurun_test.Case):
    def facts(self, end):
        """Per rank {name of the group: communicator}, from the dump of the stall."""
        self.run_xpurun("--hang-timeout", 3, "--on-hang", "kill", "--grace", 2, "--",
                        *xpurun_test.torchrun(self.dir / "log", "--end", end, ranks=2, job=JOB))
        dump = [d["dir"] for d in self.manifest()["dumps"] if d["why"] == "hang"][0]
        facts = json.loads((self.out / dump / "collectives.json").read_text())
        self.assertEqual([r["rank"] for r in facts["ranks"]], [0, 1])
        # The state at the ranks' end: in the run directory, not in the command's directory.
        self.assertTrue((self.out / "collectives.json").exists())
        self.assertFalse((self.dir / "collectives.json").exists())
        return [sorted(r["communicators"], key=lambda c: c["name"]) for r in facts["ranks"]]

    def test_calls_with_their_lines(self):
        for world, group in self.facts("sleep"):
            self.assertEqual((world["source"], world["members"], world["size"], group["members"]),
                             ("torch", [0, 1], 2, [0, 1]))
            self.assertNotEqual(world["id"], group["id"])
            calls = {(c["op"], c["reduce"] if "reduce" in c else "", c.get("root"), c["count"], c.get("dtype", ""),
                      c["where"]["line"], c["where"]["function"]) for c in world["calls"] if c["stage"] == "done"}
            self.assertEqual(calls, {("all_reduce", "sum", None, 5, "float32", 11, "train_step"),
                                     ("broadcast", "", 1, 5, "float32", 12, "train_step"),
                                     ("new_group", "", None, 0, "", 38, "main")})
            self.assertEqual([(c["op"], c["stage"]) for c in group["calls"]], [("all_gather_object", "done")])

    def test_the_one_that_waits(self):
        ranks = self.facts("sleep")
        self.assertEqual([r[0]["id"] for r in ranks], [ranks[0][0]["id"]] * 2)
        self.assertEqual([(r[0]["called"], r[0]["done"], r[0]["done_known"]) for r in ranks],
                         [(22, 21, True), (21, 21, True)])
        last = ranks[0][0]["calls"][-1]
        self.assertEqual((last["sequence"], last["op"], last["stage"], last["where"]["line"]),
                         (22, "all_reduce", "called", 25))

    def test_mismatched_calls(self):
        first, second = self.facts("mismatch")
        calls = [[(c["sequence"], c["op"], c["stage"], c.get("root")) for c in r[1]["calls"]][1:]
                 for r in (first, second)]
        self.assertEqual(calls[0], [(2, "reduce", "called", 1)])
        self.assertEqual(calls[1][0][:2] + calls[1][0][3:], (2, "broadcast", 1))
        self.assertEqual(first[1]["calls"][-1]["reduce"], "max")

    def test_missing_send(self):
        first, second = self.facts("recv")
        self.assertEqual([(c["op"], c["peer"], c["sequence"], c["stage"], c["where"]["line"])
                          for c in first[0]["point_to_point"]], [("recv", 1, 1, "called", 23)])
        self.assertNotIn("point_to_point", second[0])


if __name__ == "__main__":
    xpurun_test.main()
