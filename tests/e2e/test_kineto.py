"""A directory of torch.profiler's traces in every command that reads what ranks did."""

import gzip
import json
import subprocess

import make_kineto
import xpurun_test
from xpurun_test import PROGRAM


STEPS = 40


class Kineto(xpurun_test.Case):
    def setUp(self):
        super().setUp()
        make_kineto.write(self.dir / "even", steps=STEPS)
        make_kineto.write(self.dir / "late", steps=STEPS, compute_us=(6000, 10_000))

    def xpurun(self, *words, status=0):
        done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=60, cwd=self.dir)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout

    def test_timeline(self):
        self.xpurun("timeline", "--format", "chrome", "--out", self.dir / "out", self.dir / "late")
        for rank in range(2):
            trace = json.loads((self.dir / "out" / f"rank-{rank}-torch.profiler.json").read_text())
            kernels = [e for e in trace["traceEvents"] if e.get("name", "").startswith("ncclDevKernel")]
            self.assertEqual(len(kernels), STEPS)

    def test_analyze(self):
        told = json.loads(self.xpurun("analyze", "--format", "json", self.dir / "late"))
        self.assertEqual((told["steps"], told["source"]), (STEPS, "mark"))
        self.assertAlmostEqual(told["step_s"], 0.020, delta=0.0002)
        waits = {r["rank"]: r["wait_s"] for r in told["ranks"]}
        self.assertAlmostEqual(waits[0], 0.004, delta=0.0001)
        self.assertAlmostEqual(waits[1], 0, delta=0.0001)
        (row,) = told["operations"]["collectives"]
        self.assertEqual((row["operation"], row["type"], row["size"]), ("AllReduce", "bf16", 2))
        self.assertEqual(row["mean_bytes"], make_kineto.BYTES)
        self.assertEqual([late["rank"] for late in row["lateness"]["ranks"]], [1])
        compute = [round(r["compute_s"], 3) for r in told["operations"]["ranks"]]
        self.assertEqual(compute, [0.006 * STEPS, 0.010 * STEPS])

    def test_diff(self):
        told = json.loads(self.xpurun("diff", "--format", "json", self.dir / "even", self.dir / "late"))
        self.assertEqual((told["a"]["ranks"], told["b"]["ranks"]), ("0-1", "0-1"))
        slower = {(m["kind"], m["judgement"]) for m in told["metrics"] if m["judgement"] != "same"}
        self.assertIn(("skew", "slower"), slower, told["metrics"])
        (kernel,) = [m for m in told["metrics"] if m["kind"] == "kernel"]
        self.assertEqual((kernel["name"], round(kernel["a_s"], 4), round(kernel["b_s"], 4)),
                         ("sm90_xmma_gemm_bf16", 0.006, 0.008))

    def test_query(self):
        def rows(sql):
            return [json.loads(line) for line in
                    self.xpurun("query", "--format", "json", sql, self.dir / "late").splitlines()]
        self.assertEqual(rows("SELECT rank, count(*) AS n, round(avg(wait_s), 4) AS wait FROM steps GROUP BY rank"),
                         [{"rank": 0, "n": STEPS, "wait": 0.004}, {"rank": 1, "n": STEPS, "wait": 0.0}])
        self.assertEqual(rows("SELECT count(DISTINCT meeting) AS n FROM calls WHERE category = 'collective'"),
                         [{"n": STEPS}])
        self.assertEqual(rows("SELECT DISTINCT stage FROM spans ORDER BY stage"),
                         [{"stage": "data"}, {"stage": "mark"}, {"stage": "optimizer"}])

    def test_wrong_events_are_counted_and_named(self):
        make_kineto.write(self.dir / "alone", world=1, compute_us=(6000,))
        (path,) = (self.dir / "alone").iterdir()
        trace = json.loads(gzip.decompress(path.read_bytes()))
        trace["traceEvents"] += [{"ph": "X", "name": name, "ts": 5, "dur": -5} for name in ("first", "second")]
        path.write_bytes(gzip.compress(json.dumps(trace).encode()))
        for words in (("timeline", "-o", "x"), ("analyze",), ("diff", path), ("query", "--ask", "time")):
            with self.subTest(words[0]):
                done = subprocess.run([PROGRAM, *map(str, words), str(path)], capture_output=True, text=True,
                                      timeout=60, cwd=self.dir)
                self.assertIn("2 events are left out: first, second", done.stderr)

    def test_events_that_are_nothing_to_analyze(self):
        path = self.dir / "py-spy.json"
        path.write_text(json.dumps([{"ph": "X", "name": "main", "ts": 5, "dur": 5}]))
        done = subprocess.run([PROGRAM, "analyze", path.name], capture_output=True, text=True, timeout=60, cwd=self.dir)
        self.assertIn("xpurun timeline py-spy.json", done.stderr)
        self.assertEqual(self.xpurun("query", "SELECT name, seconds FROM spans", path.name).split()[-2], "main")

    def test_one_process_without_ranks(self):
        make_kineto.write(self.dir / "alone", world=1, compute_us=(6000,))
        (path,) = (self.dir / "alone").iterdir()
        self.assertIn("rank", self.xpurun("analyze", path).lower())


if __name__ == "__main__":
    xpurun_test.main()
