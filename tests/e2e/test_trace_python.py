"""--trace-python: the calls of chosen functions of two ranks, from the job to the answers."""

import json
import subprocess
import time
import unittest

import span_file
import xpurun_test
from xpurun_test import PYTHON, SOURCE

JOB = SOURCE / "tests" / "e2e" / "jobs" / "traced_job.py"
MODULE = "traced_module:"
NAMES = [MODULE + name for name in ("load", "tiny", "numbers", "fails", "count_down", "Model.build", "Model.forward")]


class TracePython(xpurun_test.Case):
    def job(self, *options, **env):
        return self.run_xpurun(*options, "--", PYTHON, JOB, env=self.env(**env))

    def traced(self, *options):
        words = [word for name in NAMES for word in ("--trace-python", name)]
        result = self.job(*words, "--trace-python-min", "500us", *options)
        bare = subprocess.run([PYTHON, JOB], env=self.env(), capture_output=True, text=True, timeout=90)
        self.assertEqual((result.returncode, sorted(result.stdout.splitlines())),
                         (bare.returncode, sorted(bare.stdout.splitlines())))
        return result

    def test_the_files(self):
        result = self.traced()
        self.assertEqual(result.stderr, "")
        for rank in ("0", "1"):
            # Without torch there are no stages, and so no other file.
            self.assertEqual([f.name for f in (self.out / "ranks" / rank).glob("*.xsp")], ["functions-1.xsp"])
            file = span_file.load(self.out / "ranks" / rank / "functions-1.xsp")
            self.assertEqual((file["complete"], file["lost"], {s["stage"] for s in file["spans"]}),
                             (True, 0, {"function"}))
            long = [s for s in file["spans"] if s["name"] == MODULE + "load"]
            self.assertEqual(len(long), 12)
            self.assertGreater(min(s["duration_ns"] for s in long), 2 * 10**6)
            self.assertEqual(len({s["thread"] for s in long}), 2)
            self.assertRegex(long[0]["place"], r"^traced_job\.py:\d+ \((Trainer\.)?step\)$")
            short = {}
            for one in file["short_calls"]:
                short[one["name"]] = short.get(one["name"], 0) + one["calls"]
                self.assertLessEqual(one["total_ns"], one["duration_ns"])
            long = {name: sum(s["name"] == name for s in file["spans"]) for name in NAMES}
            calls = {name: short.get(name, 0) + long[name] for name in NAMES}
            self.assertEqual(calls, dict(zip(NAMES, (12, 5000, 30, 1, 4, 10, 10))))
            self.assertGreater(short[MODULE + "tiny"], 4900)

    def test_answers(self):
        self.traced()
        report = json.loads(self.run_xpurun("analyze", "--format", "json", self.out, out=False).stdout)
        functions = {f["name"]: f for f in report["functions"]}
        self.assertEqual(set(functions), set(NAMES))
        load = functions[MODULE + "load"]
        self.assertEqual((load["calls"], load["slowest"], load["outliers"]), (24, 1, [1]))
        self.assertGreater(load["slowest_mean_s"], 0.02)
        self.assertEqual([rank["calls"] for rank in load["ranks"]], [12, 12])
        # The load inside of fails() does not count as its own time.
        self.assertLess(functions[MODULE + "fails"]["self_s"], functions[MODULE + "fails"]["total_s"] / 2)
        text = self.run_xpurun("analyze", self.out, out=False).stdout
        self.assertIn("traced functions", text)
        self.assertRegex(text, r"traced_module:load; slow on rank 1: 2\d ms, \d+\.\d times the others'")

        def query(*words):
            done = self.run_xpurun("query", "--format", "json", *words, self.out, out=False)
            return [json.loads(line) for line in done.stdout.splitlines()]

        rows = {(row["name"], row["rank"]): row for row in query("--ask", "functions")}
        self.assertEqual(rows[MODULE + "tiny", 0]["calls"], 5000)
        self.assertGreaterEqual(rows[MODULE + "load", 1]["p99_ms"], 20)
        parents = query("SELECT DISTINCT p.name AS outer, s.name AS inner FROM spans AS s LEFT JOIN spans AS p ON "
                        "s.parent = p.id WHERE s.rank = 0")
        pairs = {(row["outer"], row["inner"]) for row in parents}
        self.assertLessEqual({(None, MODULE + "load"), (MODULE + "fails", MODULE + "load"),
                              (MODULE + "count_down", MODULE + "count_down")}, pairs)
        told = self.run_xpurun("timeline", "-o", self.dir / "trace", self.out, out=False).stdout
        self.assertIn("of 2 processes", told)
        self.assertIn(b"traced_module:count_down", (self.dir / "trace").read_bytes())
        events = self.run_xpurun("events", self.out, out=False).stdout
        self.assertRegex(events, r"function \d+ short calls of traced_module:tiny")

    def test_names_that_do_not_exist(self):
        result = self.job("--trace-python", "traced_module:lode,never:f", "--trace-python", MODULE + "load")
        self.assertEqual(result.returncode, 0)
        # Once, although both ranks say so.
        for text in ("traced_module:lode is not traced: the module has no such function",
                     "never:f is not traced: the module was not imported"):
            self.assertEqual(" ".join(result.stderr.split()).count(text), 1, result.stderr)
        self.assertEqual(result.stderr.count("warning: rank "), 2)
        for bad in ("a:", "a:b c", "1a:b", "a:b@c"):
            result = self.run_xpurun("--trace-python", bad, "--", "true")
            self.assertEqual(result.returncode, 125)
            self.assertIn("is not module:function", " ".join(result.stderr.split()))

    def test_names_in_the_environment(self):
        for name, value in (("XPURUN_TRACE_PYTHON", MODULE + "Model.forward"),
                            ("XPU_TIMER_HOST_TRACING_FUNC", "traced_module@Model@forward")):
            self.out = self.dir / name
            self.assertEqual(self.job(**{name: value}).returncode, 0)
            file = span_file.load(self.out / "ranks" / "0" / "functions-1.xsp")
            self.assertEqual({s["name"] for s in file["spans"]}, {MODULE + "Model.forward"})

    def calls(self, rank, name, after_ns=0):
        """How many calls of the function are in the rank's files, of those that ended later."""
        return sum(s["name"] == name and s["begin_ns"] + s["duration_ns"] > after_ns
                   for path in self.out.glob(f"ranks/{rank}/functions-*.xsp") for s in span_file.load(path)["spans"])

    def test_change_while_the_job_runs(self):
        job = self.dir / "job.py"
        job.write_text("import os, sys, time\n"
                       f"sys.path.insert(0, {str(JOB.parent)!r})\n"
                       "import traced_module\n"
                       "def in_main(i):\n    traced_module.load(i)\n"
                       "if os.environ['RANK'] != '2':\n    from xpurun import step\n"
                       "else:\n    step = lambda: None\n"
                       "i = 0\n"
                       f"while not os.path.exists({str(self.dir / 'end')!r}):\n"
                       "    in_main(i); traced_module.tiny(i); step(); time.sleep(0.01); i += 1\n")
        ranks = "for r in 0 1 2; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=3 \"$@\" & done; wait"
        process = self.start_xpurun("--no-report", "--trace-python-min", "0", "--", "bash", "-c", ranks, "ranks",
                                    PYTHON, job, env=self.env())

        def ctl(*words, status=0):
            done = self.run_xpurun("ctl", "--run", self.out, "trace-python", *words, out=False)
            self.assertEqual(done.returncode, status, done.stderr)
            return done.stdout if status == 0 else " ".join(done.stderr.split())

        def follow(answer):
            return {r["rank"]: r["follows"] for r in json.loads(answer)["ranks"]}

        try:
            self.wait_for(lambda: len(self.rank_pids()) == 3, "three ranks")
            self.wait_for(lambda: list(self.out.glob("ranks/[01]/spans-1.xsp")), "spans")
            self.assertEqual(ctl("list"), "no function of Python is traced\n")
            added = ctl("add", MODULE + "load", "__main__:in_main", MODULE + "lode", "traced_module@tiny")
            self.assertEqual(added.splitlines()[:4],
                             [MODULE + "load", "__main__:in_main",
                              MODULE + "lode is not traced: the module has no such function", MODULE + "tiny"])
            self.assertEqual(added.splitlines()[4:], ["rank 2: no span was seen, so this list does not reach it"])
            self.assertEqual(follow(ctl("--json")), {0: "yes", 1: "yes", 2: "no_spans"})
            self.wait_for(lambda: min(self.calls(r, MODULE + "load") for r in "01") > 10, "calls of load")
            self.assertEqual(ctl("remove", MODULE + "load", MODULE + "lode", MODULE + "tiny").splitlines()[0],
                             "__main__:in_main")
            removed_ns = time.monotonic_ns()
            self.wait_for(lambda: min(self.calls(r, "__main__:in_main", removed_ns) for r in "01") > 10, "later calls")
            self.assertIn("traced_module:load is not in the list", ctl("remove", MODULE + "load", status=1))
            self.assertIn("is not module:function", ctl("add", "load it", status=1))
            self.assertIn("needs list, or add or remove", ctl("change", status=2))
        finally:
            (self.dir / "end").touch()
            _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)
        for rank in ("0", "1"):
            file = span_file.load(self.out / "ranks" / rank / "functions-1.xsp")
            ends = {}
            for s in file["spans"]:
                ends.setdefault(s["name"], []).append(s["begin_ns"] + s["duration_ns"])
            self.assertEqual(set(ends), {MODULE + "load", MODULE + "tiny", "__main__:in_main"})
            self.assertGreater(len(ends[MODULE + "load"]), 10)
            self.assertLessEqual(max(ends[MODULE + "load"] + ends[MODULE + "tiny"]), removed_ns)
            self.assertGreater(sum(end > removed_ns for end in ends["__main__:in_main"]), 10)
        self.assertEqual(list(self.out.glob("ranks/2/*.xsp")), [])
        report = json.loads(self.run_xpurun("analyze", "--format", "json", self.out, out=False).stdout)
        self.assertEqual({f["name"] for f in report["functions"]}, set(ends))

    def test_switched_off(self):
        for options in (["--timing=off"], ["--no-python-hooks"], ["--events=off"]):
            self.out = self.dir / f"run{options[0]}"
            self.assertEqual(self.job("--trace-python", MODULE + "load", *options).returncode, 0)
            self.assertEqual(list(self.out.glob("ranks/*/*.xsp")), [])

    @unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
    def test_steps_are_the_same(self):
        """Functions around and inside of the stages take no time from them."""
        job = SOURCE / "tests" / "e2e" / "jobs" / "stages_job.py"
        env = self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", RENDEZVOUS=str(self.dir / "store"))
        result = self.run_xpurun("--trace-python", "__main__:train,__main__:Model.forward,torch.optim.sgd:SGD.step",
                                 "--trace-python-min", "0", "--", PYTHON, job, "end", env=env)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        stages = [s["stage"] for s in span_file.load(self.out / "ranks/0/spans-1.xsp")["spans"]
                  if s["stage"] != "garbage"]
        step = ["data", "forward", "backward", "communication", "optimizer"]
        self.assertEqual(stages[:11], step * 2 + ["data"])
        functions = [s["name"] for s in span_file.load(self.out / "ranks/0/functions-1.xsp")["spans"]]
        self.assertEqual(functions.count("__main__:Model.forward"), 8)
        # Before Python 3.12, the first call may begin before the function is found.
        self.assertIn(functions.count("__main__:train"), (1, 2))
        self.assertGreaterEqual(functions.count("torch.optim.sgd:SGD.step"), 4)


if __name__ == "__main__":
    xpurun_test.main()
