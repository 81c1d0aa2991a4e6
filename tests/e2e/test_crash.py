"""Ranks that die: the verdict names the first rank, the cause and the position."""

import json
import unittest

import stack_files
import xpurun_test
from lane import long


@unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
class Crash(xpurun_test.Case):
    def job(self, fault):
        result = self.run_xpurun("--hang-timeout", 20, "--",
                                 *xpurun_test.torchrun(self.dir / "log", "--guilty", 2, "--fault", fault, "--steps",
                                                       1000))
        verdict = self.verdict()
        self.assertEqual(verdict["ranks"], [2], json.dumps(verdict, indent=1) + result.stderr)
        self.assertIn(verdict["headline"], result.stderr)
        return result, verdict

    @long
    def test_null_pointer_in_c(self):
        result, verdict = self.job("segv")
        self.assertEqual((verdict["kind"], verdict["signal"], result.returncode), ("crash", 11, 139))
        self.assertEqual(verdict["where"]["function"], "null_pointer")
        # The crashed thread's own stack begins at the fault, with Python below it.
        run = self.manifest()
        crash = [c for c in run["crashes"] if c["rank"] == 2][0]
        stacks = stack_files.read(self.out / crash["dump"] / "rank-2.stacks.json")
        thread = [t for t in stacks["threads"] if t.get("crashed")][0]
        self.assertEqual(thread["frames"][0]["kind"], "native")
        self.assertTrue(any(f["func"] == "null_pointer" for f in thread["frames"]))
        # The others were dumped too, at the same time.
        self.assertTrue((self.out / crash["dump"] / "rank-0.stacks.json").exists())

    @long
    def test_abort(self):
        result, verdict = self.job("abort")
        self.assertEqual((verdict["kind"], verdict["signal"], result.returncode), ("crash", 6, 134))

    def test_sigkill(self):
        result, verdict = self.job("kill")
        self.assertEqual((verdict["kind"], verdict["signal"], result.returncode), ("crash", 9, 137))
        self.assertIn("dead", verdict["state"])

    def test_exception(self):
        result, verdict = self.job("raise")
        self.assertEqual((verdict["kind"], verdict["id"]), ("exception", "exit.exception"))
        # A rank that needs long to end gets torchrun's SIGTERM, because another rank has failed for it and ended.
        self.assertIn((verdict.get("exit_code"), verdict.get("signal")), [(1, None), (None, 15)])
        self.assertEqual(result.returncode, 1)
        self.assertIn("rank 2 raised", verdict["sentence"])
        self.assertRegex(verdict["sentence"], r"raised \w+(: .*)? at ddp_job\.py:\d+ \(in \w+\)")
        self.assertTrue(verdict["where"]["file"].endswith("/ddp_job.py"))
        run = self.manifest()
        mine = [x for x in run["exceptions"] if x["rank"] == 2]
        self.assertEqual([x["kind"] for x in mine], ["raised"])
        self.assertEqual(mine[0]["chain"][0]["frames"][-1]["line"], verdict["where"]["line"])

    @long
    def test_left_early_and_the_peers_fail_for_it(self):
        _, verdict = self.job("exit0-closed")
        self.assertEqual((verdict["kind"], verdict["exit_code"]), ("exit", 0))


class SingleProcess(xpurun_test.Case):
    def test_crash_without_any_launcher(self):
        result = self.run_xpurun(
            "--", xpurun_test.PYTHON, "-c", "import ctypes\ndef boom(): ctypes.string_at(0)\nboom()"
        )
        self.assertEqual(result.returncode, 139)
        self.assertEqual(self.verdict()["kind"], "crash")
        self.assertEqual(self.verdict()["where"]["function"], "boom")

    def test_the_last_lines_of_standard_error(self):
        code = "import os\nfor i in range(30): os.write(2, b'line %d\\n' % i)\nos.abort()"
        with open(self.dir / "err.log", "w") as log:
            self.start_xpurun("--", xpurun_test.PYTHON, "-c", code, stderr=log).communicate(timeout=60)
        verdict = self.verdict()
        tail = verdict["log_tail"]
        self.assertEqual((tail["file"], tail["lines"]), (str(self.dir / "err.log"),
                                                         [f"line {i}" for i in range(10, 30)]))
        self.assertEqual(verdict["evidence"][:2], ["the standard error of rank 0 ended with:", "line 26"])
        self.assertIn("line 10&#10;line 11&#10;", (self.out / "report.html").read_text())

    def test_a_pipe_is_not_read_without_logs(self):
        command = ("--", xpurun_test.PYTHON, "-c", "import os; os.write(2, b'why\\n'); os.abort()")
        self.run_xpurun(*command)
        self.assertIn("--logs", self.verdict()["log_tail"]["reason"])
        self.out = self.dir / "second"
        self.run_xpurun("--logs", *command, env=self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1"))
        tail = self.verdict()["log_tail"]
        self.assertEqual((tail["file"], tail["lines"]), ("ranks/0/stderr.log", ["why"]))

    def test_the_exception_behind_terminate(self):
        code = ("import ctypes\ndef load():\n"
                " ctypes.CDLL('libstdc++.so.6')._ZSt21__throw_runtime_errorPKc(b'no table')\nload()")
        self.run_xpurun("--", xpurun_test.PYTHON, "-c", code)
        self.assertIn("died of SIGABRT (std::runtime_error: no table) in load", self.verdict()["sentence"])

    def test_the_termination_log(self):
        log = self.dir / "termination.log"
        self.run_xpurun("--termination-log", log, "--", xpurun_test.PYTHON, "-c", "import os; os.abort()")
        self.assertEqual(log.read_text().splitlines()[0], self.verdict()["sentence"])
        self.out = self.dir / "second"
        log.unlink()
        self.run_xpurun("--termination-log", log, "--", "true")
        self.assertFalse(log.exists())

    def test_faulthandler_still_speaks_and_we_too(self):
        result = self.run_xpurun("--", xpurun_test.PYTHON, "-X", "faulthandler", "-c",
                                 "import ctypes; ctypes.string_at(0)")
        self.assertIn("Fatal Python error: Segmentation fault", result.stderr)
        self.assertEqual(result.returncode, 139)
        self.assertEqual(self.verdict()["kind"], "crash")
        self.assertTrue(self.manifest()["crashes"][0]["dump"])


if __name__ == "__main__":
    xpurun_test.main()
