"""xpurun diff and xpurun analyze --baseline: runs made of event files and span files."""

import html.parser
import json
import subprocess

import make_events
import schemas
import xpurun_test
from xpurun_test import PROGRAM

STEPS = 80
RANKS = 4


def events_of(matmul_ns, steps=STEPS, seed=0):
    """A matmul, a copy and an all-reduce each step of 2 ms; the times vary a little."""
    out = make_events.Events()
    for step in range(steps):
        at = 1_000_000_000 + step * 2_000_000
        noise = ((step * 7919 + seed * 104729) % 2000) - 1000
        out.add(0, at + 20_000, matmul_ns + noise, sequence=step, stream=1, delay=19)
        out.add(4, at + 1_220_000, 50_000 + noise, sequence=step, stream=1, delay=3)
        out.add(3, at + 1_500_000, 400_000 + noise, sequence=step + 1, stream=2, delay=8,
                source=make_events.SOURCE_PROFILER)
    return out


class Diff(xpurun_test.Case):
    def make_run(self, name, matmul_ns, seed=0):
        """`matmul_ns`: by rank."""
        run = self.dir / name
        for rank, duration in enumerate(matmul_ns):
            ranks = run / "ranks" / str(rank)
            make_events.write_rank(ranks / "events-1.xev", rank, len(matmul_ns), events_of(duration, seed=seed + rank))
            make_events.write_marks(ranks / "spans-1.xsp", rank, STEPS)
        (run / "run.json").write_text(json.dumps({"schema": "xpurun.run/1", "outcome": "exit", "elapsed_s": 3,
                                                  "started_wall_ns": make_events.WALL}))
        return run

    def xpurun(self, *args, status=0, columns=80):
        done = subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=60, cwd=self.dir,
                              env={"COLUMNS": str(columns), "PATH": "/usr/bin:/bin"})
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def test_a_slower_matmul(self):
        a = self.make_run("a", [200_000] * RANKS)
        b = self.make_run("b", [250_000] * RANKS, seed=50)
        told = json.loads(self.xpurun("diff", "--format", "json", a, b))
        schemas.check(self, "comparison", told)
        matmul = next(m for m in told["metrics"] if m["kind"] == "matmul")
        self.assertEqual((matmul["name"], matmul["judgement"], matmul["ranks"]),
                         ("4096x4096x4096 bf16 TN", "slower", "all ranks"))
        self.assertAlmostEqual(matmul["effect"], 0.25, delta=0.02)
        self.assertEqual([m["kind"] for m in told["metrics"] if m["judgement"] != "same"], ["matmul"])
        text = self.xpurun("diff", a, b)
        self.assertIn("matmul 4096x4096x4096 bf16 TN takes", text)
        self.assertIn("on all ranks", " ".join(text.split()))
        back = json.loads(self.xpurun("diff", "--format", "json", b, a))
        self.assertEqual([m["judgement"] for m in back["metrics"] if m["kind"] == "matmul"], ["faster"])

    def test_equal_runs(self):
        a = self.make_run("a", [200_000] * RANKS)
        b = self.make_run("b", [200_000] * RANKS, seed=50)
        for columns in (40, 80):
            text = self.xpurun("diff", a, b, columns=columns)
            self.assertTrue(text.startswith("no significant difference"), text)
            self.assertLessEqual(max(map(len, text.splitlines())), columns, text)

    def test_groups_of_ranks(self):
        run = self.make_run("a", [200_000, 200_000, 300_000, 300_000])
        told = json.loads(self.xpurun("diff", "--format", "json", "--ranks-a", "0-1", "--ranks-b", "2,3", run))
        self.assertEqual((told["a"]["ranks"], told["b"]["ranks"]), ("0-1", "2-3"))
        self.assertEqual([m["judgement"] for m in told["metrics"] if m["kind"] == "matmul"], ["slower"])
        self.assertIn("no rank of 9", self.xpurun("diff", "--ranks-a", "9", "--ranks-b", "0", run, status=1))

    def test_the_page(self):
        a = self.make_run("a", [200_000] * RANKS)
        b = self.make_run("b", [250_000] * RANKS)
        out = self.dir / "page.html"
        self.assertEqual(self.xpurun("diff", "--format", "html", "--out", out, a, b), "")
        page = out.read_text(encoding="utf-8")
        for part in ('<svg class="effects"', '<table class="sortable">', "default-src 'none'"):
            self.assertIn(part, page)
        html.parser.HTMLParser().feed(page)

    def test_baseline(self):
        a = self.make_run("a", [200_000] * RANKS)
        b = self.make_run("b", [250_000] * RANKS)
        text = self.xpurun("analyze", "--baseline", a, b)
        self.assertIn("Compared with", text)
        self.assertIn("matmul 4096x4096x4096 bf16 TN", text)
        told = json.loads(self.xpurun("analyze", "--format", "json", "--baseline", a, b))
        self.assertEqual(told["schema"], "xpurun.speed/1")
        self.assertEqual(told["comparison"]["schema"], "xpurun.comparison/1")
        self.assertEqual(told["comparison"]["b"]["name"], str(b))
        self.assertIn("missing", self.xpurun("analyze", "--baseline", self.dir / "missing", b, status=1))

    def test_wrong_use(self):
        a = self.make_run("a", [200_000] * 2)
        for words in ([a], [a, a, a], [], ["--ranks-a", "0", a], ["--ranks-a", "x", "--ranks-b", "1", a],
                      ["--format", "xml", a, a]):
            self.xpurun("diff", *words, status=2)

    def test_unreadable(self):
        a = self.make_run("a", [200_000] * 2)
        self.assertIn("missing", self.xpurun("diff", a, self.dir / "missing", status=1))
        empty = self.dir / "empty"
        empty.mkdir()
        (empty / "run.json").write_text((a / "run.json").read_text())
        self.assertIn("no spans", self.xpurun("diff", a, empty, status=1))
        damaged = self.make_run("damaged", [200_000] * 2)
        (damaged / "ranks/0/events-1.xev").write_bytes(b"something else")
        self.assertIn("no significant difference", self.xpurun("diff", a, damaged))


if __name__ == "__main__":
    xpurun_test.main()
