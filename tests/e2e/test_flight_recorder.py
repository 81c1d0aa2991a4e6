"""PyTorch's Flight Recorder: bare directories of dumps, and dumps that ranks write before the job is ended."""

import json
import subprocess
import sys
import unittest

import xpurun_test

DATA = xpurun_test.SOURCE / "tests/data/flight_recorder"
JOB = xpurun_test.SOURCE / "tests/e2e/jobs/recorded_ranks.py"


class Directory(xpurun_test.Case):
    def setUp(self):
        super().setUp()
        self.dumps = self.dir / "dumps"

    def make(self, scenario, *options):
        subprocess.run([sys.executable, DATA / "make_dumps.py", self.dumps, scenario, *options], check=True)

    def report(self, *options):
        return self.run_xpurun("report", *options, self.dumps, out=False)

    def facts(self):
        return json.loads((self.dumps / "xpurun-report/collectives.json").read_text())["ranks"]

    def test_every_format_gives_the_same_facts(self):
        seen = []
        for number, options in enumerate([(), ("--json",), ("--version", "2.0"), ("--version", "1.5")]):
            self.dumps = self.dir / f"dumps{number}"
            self.make("mismatch", *options)
            self.assertEqual(self.report("--quiet").returncode, 0)
            seen.append([(r["rank"], c["id"], c["called"], c["done"], c["calls"][-1]["op"])
                         for r in self.facts() for c in r["communicators"]])
        self.assertEqual(seen[0][3], (3, "0/0-3", 4, 3, "broadcast"))
        self.assertEqual(seen[0][0], (0, "0/0-3", 4, 3, "all_reduce"))
        for other in seen[1:]:
            self.assertEqual(other, seen[0])

    def test_report_files_and_the_verdict_for_programs(self):
        self.make("behind", "--ranks", "8")
        done = self.report("--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["kind"], "hang")
        self.assertEqual({p.name for p in (self.dumps / "xpurun-report").iterdir()},
                         {"collectives.json", "verdict.json", "report.json", "report.html"})

    def test_a_rank_without_a_dump_is_named(self):
        self.make("missing")
        done = self.report()
        self.assertEqual(done.returncode, 0)
        self.assertIn("rank 1 left no readable dump", done.stdout)

    def test_a_hostile_pickle_is_refused_and_the_others_are_read(self):
        self.make("behind")
        (self.dumps / "nccl_trace_rank_2").write_bytes(b"\x80\x02cos\nsystem\n(X\x04\x00\x00\x00exit\x85R.")
        done = self.report()
        self.assertEqual(done.returncode, 0)
        self.assertIn("nccl_trace_rank_2: opcode GLOBAL is refused", done.stderr)
        self.assertEqual([r["rank"] for r in self.facts() if r["communicators"]], [0, 1, 3])

    def test_nothing_readable_is_an_error(self):
        self.dumps.mkdir()
        for rank in range(2):
            (self.dumps / f"nccl_trace_rank_{rank}").write_bytes(b"\x80\x02}.")
        done = self.report()
        self.assertEqual(done.returncode, 1)
        self.assertIn("holds no readable Flight Recorder dump", done.stderr)

    def test_the_report_goes_where_out_says(self):
        self.make("size")
        out = self.dir / "there"
        self.assertEqual(self.report("--quiet", "--out", out).returncode, 0)
        self.assertTrue((out / "report.html").exists())
        self.assertFalse((self.dumps / "xpurun-report").exists())

    def test_what_nccls_ras_said(self):
        self.dumps.mkdir()
        ranks = [{"rank": r, "host": "a", "pid": 100 + r, "nvml_dev": r, "status": {},
                  "collective_counts": {"Broadcast": 1, "AllReduce": 41 if r == 2 else 42}} for r in range(4)]
        text = self.dumps / "ras.json"
        text.write_text(json.dumps({"nccl_version": "2.29.1", "communicators_count": 1, "communicators": [
            {"hash": "0xae94", "size": 4, "ranks": ranks, "missing_ranks": []}]}))
        done = self.run_xpurun("report", text, out=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rank 2 has not entered", " ".join(done.stdout.split()))
        self.assertIn("all_reduce, call 43", " ".join(done.stdout.split()))
        self.assertIn("at one moment", done.stdout)
        verdict = json.loads((self.dumps / "xpurun-report/verdict.json").read_text())
        self.assertEqual((verdict["id"], verdict["confidence"]), ("hang.not_entered", "medium"))
        text.write_text(text.read_text()[:-60])
        done = self.run_xpurun("report", text, out=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("damaged or cut off", done.stderr)

    def test_an_ordinary_directory_is_no_run(self):
        self.dumps.mkdir()
        (self.dumps / "step1").write_text("x")
        done = self.report()
        self.assertEqual(done.returncode, 1)
        self.assertIn("no run directory at", done.stderr)


class Forced(xpurun_test.Case):
    def hang(self, *options, job=()):
        return self.run_xpurun("--hang-timeout", "2s", "--grace", "2s", "--on-hang", "kill", "--hang-idle",
                               "--flight-recorder", *options, "--", sys.executable, JOB, *job)

    def dump(self):
        """Of the verdict: a rank that joins the stall a moment later causes another dump."""
        return self.out / self.verdict()["dump"]

    def evidence(self):
        manifest = json.loads((self.dump() / "evidence.json").read_text())
        return {part["source"]: part for part in manifest["parts"]}

    def test_every_rank_is_asked_before_the_job_is_ended(self):
        result = self.hang()
        self.assertEqual(result.returncode, 124, result.stderr)
        self.assertEqual(self.evidence()["flight_recorder"]["status"], "ok", self.evidence())
        kept = self.dump() / "flight_recorder"
        self.assertEqual(sorted(p.name for p in kept.iterdir()), ["rank_0", "rank_1"])
        self.assertEqual(set(self.evidence()), {"gpu", "kernel_log", "flight_recorder"})

    def test_a_rank_that_does_not_answer_costs_the_limit_and_no_more(self):
        result = self.hang("--evidence-timeout", "3s", job=["silent"])
        self.assertEqual(result.returncode, 124, result.stderr)
        part = self.evidence()["flight_recorder"]
        self.assertIn(part["status"], ("partial", "timeout"), part)
        self.assertTrue((self.dump() / "flight_recorder/rank_0").exists())
        self.assertFalse((self.dump() / "flight_recorder/rank_1").exists())

    def test_the_ranks_that_survive_a_crash_are_asked(self):
        result = self.hang(job=["crash"])
        self.assertEqual(result.returncode, 124, result.stderr)
        kept = self.out / "dumps/1-crash/flight_recorder"
        self.assertEqual([p.name for p in kept.iterdir()], ["rank_0"])

    def test_without_evidence_nobody_is_asked(self):
        result = self.hang("--evidence-timeout", "off")
        self.assertEqual(result.returncode, 124, result.stderr)
        self.assertFalse((self.out / "dumps/1-hang/evidence.json").exists())


if __name__ == "__main__":
    unittest.main()
