"""xpurun pipeline: a real pipeline of two stages, from the job to the view, and logs of Paddle."""

import json
import subprocess
import unittest
import xml.etree.ElementTree

import schemas
import xpurun_test
from xpurun_test import PROGRAM, PYTHON, SOURCE

JOB = SOURCE / "tests" / "e2e" / "jobs" / "pipeline_job.py"
STEPS, BATCHES, FORWARD_S = 4, 4, 0.06


def paddle_line(kind, number, begin_ms, end_ms):
    return (f"I1020 09:15:07.265326 22317 standalone_executor.cc:217] Profiler Info: Job ({number}), type = {kind}, "
            f"micro_batch_id = {number}, job_start_time = {begin_ms:.6f}, job_end_time = {end_ms:.6f}\n")


class Pipeline(xpurun_test.Case):
    def pipeline(self, *args, status=0):
        done = subprocess.run([PROGRAM, "pipeline", *map(str, args)], capture_output=True, text=True, timeout=60,
                              cwd=self.dir, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def timeline(self, *args):
        return subprocess.run([PROGRAM, "timeline", *args], capture_output=True, text=True, timeout=60, cwd=self.dir,
                              check=False)

    def job(self, *options, how=()):
        env = self.env(RENDEZVOUS=str(self.dir / f"store{len(options)}{len(how)}"))
        result = self.run_xpurun(*options, "--", PYTHON, JOB, *how, env=env)
        self.assertEqual((result.returncode, result.stderr, sorted(result.stdout.splitlines())),
                         (0, "", ["0 done", "1 done"]))

    def check(self, source, first=0):
        """The view of a run of the job. `first`: the first step whose jobs are all known."""
        report = json.loads(self.pipeline("--format", "json", self.out).stdout)
        schemas.check(self, "pipeline", report)
        view, = report["pipelines"]
        self.assertEqual([(s["stage"], s["rank"], s["source"]) for s in view["stages"]],
                         [(0, 0, source), (1, 1, source)])
        self.assertEqual([s["complete"] for s in view["steps"][first:]], [True] * (STEPS - first))
        self.assertEqual([s["jobs"] for s in view["steps"][first:]], [BATCHES] * (STEPS - first))
        for stage, order in zip(view["stages"], ("ffbfbfbb", "fbfbfbfb")):
            for step in range(first, STEPS):
                jobs = [j for j in stage["jobs"] if j["step"] == step]
                self.assertEqual("".join(j["kind"][0] for j in jobs), order + "o")
                for kind in ("forward", "backward"):
                    self.assertEqual([j["micro_batch"] for j in jobs if j["kind"] == kind], list(range(BATCHES)))
            # The jobs sleep.
            least = FORWARD_S * (1 + stage["stage"])
            self.assertGreaterEqual(stage["forward_s"], least)
            self.assertGreaterEqual(stage["backward_s"], 2 * least)
            self.assertGreaterEqual(stage["busy_s"], BATCHES * 3 * least)
        # Stage 0 waits for the backward passes of stage 1.
        self.assertEqual(view["critical"], 1)
        self.assertGreater(view["stages"][0]["bubble"], view["stages"][1]["bubble"])
        self.assertGreater(view["saving_s"], BATCHES * FORWARD_S)
        return report

    @unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
    def test_without_anything_named(self):
        self.job()
        # Little is recorded before the first send, so the first forward job may not be known.
        self.check("calls", first=1)
        text = self.pipeline(self.out).stdout
        self.assertIn("stage 1 (rank 1) is critical: it works", " ".join(text.split()))
        self.assertIn("from point-to-point operations", text)
        self.pairs()
        self.pictures()
        self.trace()
        self.page()

    def pairs(self):
        """A send and its recv have the same group and number on both ranks."""
        done = subprocess.run([PROGRAM, "events", "--json", self.out], capture_output=True, text=True, timeout=60,
                              check=True)
        calls = {}
        for line in done.stdout.splitlines():
            span = json.loads(line)
            if span.get("stage") == "communication" and span["name"] in ("send", "recv"):
                calls.setdefault((span["rank"], span["name"]), []).append((span["group"], span["sequence"]))
        for source, target in ((0, 1), (1, 0)):
            sent, received = calls[source, "send"], calls[target, "recv"]
            self.assertEqual([number for _, number in received], list(range(1, STEPS * BATCHES + 1)))
            self.assertRegex(received[0][0], rf" {source}>{target}$")
            # Little is recorded before the first send.
            self.assertLessEqual(len(received) - 1, len(sent))
            self.assertLessEqual(set(sent), set(received))

    def pictures(self):
        svg = self.pipeline("--format", "svg", self.out).stdout
        boxes = [e.get("class") for e in xml.etree.ElementTree.fromstring(svg).iter() if e.tag.endswith("rect")]
        self.assertEqual(boxes.count("job job-forward"), 2 * 2 * BATCHES + 1)  # and the legend
        svg = self.pipeline("--format", "svg", "--steps", "1", "-o", "one.svg", self.out)
        self.assertEqual(svg.stdout, "")
        self.assertEqual((self.dir / "one.svg").read_text().count("job-forward\" x"), 2 * BATCHES + 1)
        self.pipeline("--format", "svg", "--steps", "7-9", self.out, status=1)

    def trace(self):
        told = subprocess.run([PROGRAM, "timeline", "-o", self.dir / "trace", self.out], capture_output=True,
                              text=True, check=True, timeout=60).stdout
        self.assertIn("of 3 processes", told)
        self.assertIn(b"stage 1, rank 1", (self.dir / "trace").read_bytes())

    def page(self):
        page = (self.out / "report.html").read_text()
        self.assertIn('<section id="pipeline"', page)
        self.assertIn('class="job job-backward"', page)
        pipelines = json.loads((self.out / "report.json").read_text())["pipeline"]["pipelines"]
        self.assertEqual(len(pipelines[0]["steps"]), STEPS)
        self.assertNotIn("jobs", pipelines[0]["stages"][0])

    @unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
    def test_traced_functions(self):
        self.job("--trace-python", "__main__:Stage.forward_one_chunk",
                 "--trace-python", "__main__:Stage.backward_one_chunk")
        self.check("functions")

    @unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
    def test_marks(self):
        self.job(how=["marks"])
        report = self.check("marks")
        self.assertIn("as the program marked them", self.pipeline(self.out).stdout)
        # Nothing is inferred between the marks.
        events = subprocess.run([PROGRAM, "events", self.out], capture_output=True, text=True, check=True,
                                timeout=60).stdout
        self.assertNotIn("forward (inferred)", events)
        self.assertEqual(report["notes"], [])

    @unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
    def test_marks_while_timing_is_off(self):
        self.job("--timing=off", how=["marks"])
        self.assertEqual(list(self.out.glob("ranks/*/*.xsp")), [])
        self.assertIn("E-NO-DATA", self.pipeline(self.out, status=1).stderr)

    def test_logs_of_paddle(self):
        for machine in (0, 1):
            folder = self.dir / "logs" / f"machine{machine}"
            folder.mkdir(parents=True)
            log = "some other line\n"
            for step in range(2):
                at = 1697793307213 + step * 10 + machine
                log += paddle_line("forward", 0, at, at + 1)
                at += 3 - 2 * machine
                log += paddle_line("backward", 0, at, at + 2) + paddle_line("optimizer", 0, at + 2, at + 3)
            (folder / "workerlog.0").write_text(log)
        told = self.pipeline("--format", "paddle", "logs").stdout
        self.assertIn("pipeline_profile.json", told)
        trace = json.loads((self.dir / "logs" / "pipeline_profile.json").read_text())["traceEvents"]
        self.assertEqual({e["tid"] for e in trace}, {"GPU0(machine:0)", "GPU0(machine:1)", "Step"})
        numbered = json.loads((self.dir / "logs" / "pipeline_profile_perfetto.json").read_text())["traceEvents"]
        self.assertEqual({e["tid"] for e in numbered}, {2333, 2334, 2335})
        # Both files and the logs themselves become time lines: 2 machines, 2 steps, 3 jobs and the rows of the steps.
        for operand in ("logs", "logs/pipeline_profile.json", "logs/pipeline_profile_perfetto.json"):
            with self.subTest(operand):
                drawn = self.timeline(operand, "-o", "trace.perfetto-trace")
                self.assertEqual(drawn.returncode, 0, drawn.stderr)
                self.assertRegex(drawn.stdout, r"^14 slices of 1 process")
        refused = self.timeline("--format", "chrome", "logs")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--format paddle of xpurun pipeline", refused.stderr)
        self.assertEqual(self.pipeline("--ranks", "0", "logs", status=1).stdout, "")
        report = json.loads(self.pipeline("--format", "json", "logs").stdout)
        self.assertEqual(report["pipelines"][0]["step_s"], 0.005)
        self.assertIn("GPU0(machine:1)", self.pipeline("logs").stdout)
        (self.dir / "logs" / "machine1" / "workerlog.0").write_text(log[:-40])
        self.assertIn("1 damaged job is left out", self.pipeline("logs", status=1).stderr)

    def test_wrong_usage_and_nothing_to_show(self):
        for wrong in (["--groups", "tp2"], ["--groups", "x"], ["--format", "html"], ["--steps", "3"],
                      ["--ranks", "x"], ["--durations"],
                      ["--format", "svg", "--steps", "x"]):
            with self.subTest(wrong):
                self.pipeline(*wrong, self.dir, status=2)
        done = self.pipeline(self.dir, status=1)
        self.assertIn("E-NO-DATA", done.stderr)
        self.assertIn("E-NO-RUN", self.pipeline(self.dir / "absent", status=1).stderr)


if __name__ == "__main__":
    xpurun_test.main()
