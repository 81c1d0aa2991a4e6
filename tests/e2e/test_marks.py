"""Programs in C that mark their steps with xpurun.h."""

import json
import os
import pathlib
import shutil
import subprocess
import unittest

import span_file
import xpurun_test
from xpurun_test import SOURCE

VICTIM = pathlib.Path(os.environ["XPURUN_TEST_BUILD"]) / "tests/preload/marks_victim"
# xpurun knows the process before it becomes a rank that lives for some milliseconds.
LATE_RANK = r"""
(
  until grep -q "found pid $$ " "$XPURUN_TEST_LOG"; do sleep 0.05; done
  sleep 2
  RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 exec "$@"
) &
wait $!
"""
RANKS = r"""
for r in 0 1; do
  RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 "$@" &
  pids="$pids $!"
done
for pid in $pids; do wait $pid || exit 1; done
"""


class Marks(xpurun_test.Case):
    def job(self, *words, options=()):
        result = self.run_xpurun(*options, "--no-report", "--", "bash", "-c", RANKS, "ranks", VICTIM, *words,
                                 env=self.env())
        self.assertEqual((result.returncode, result.stdout.split("\n")[:2]), (0, ["with xpurun"] * 2), result.stderr)

    def spans(self, rank):
        out = []
        for path in sorted((self.out / f"ranks/{rank}").glob("spans-*.xsp")):
            file = span_file.load(path)
            self.assertEqual((file["complete"], file["lost"]), (True, 0))
            out += file["spans"]
        return out

    def analysis(self):
        return json.loads(self.run_xpurun("analyze", "--format", "json", self.out, out=False).stdout)

    def test_steps(self):
        for way in ("weak", "dlsym"):
            self.out = self.dir / way
            self.job(way, 60)
            report = self.analysis()
            self.assertEqual(report["source"], "mark")
            self.assertGreater(report["step_s"], 0.003)
            self.assertEqual([rank["steps"] for rank in report["ranks"]], [59, 59])
            self.assertEqual({(s["stage"], s["name"], s["place"]) for s in self.spans(0)}, {("mark", "step", "")})
        self.assertIn("found by marks", self.run_xpurun("analyze", self.out, out=False).stdout)

    def test_without_xpurun(self):
        for way in ("weak", "dlsym"):
            done = subprocess.run([VICTIM, way, "3", "passes"], capture_output=True, text=True, timeout=30)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "without xpurun\n", ""))

    def test_passes(self):
        self.job("weak", 10, "passes")
        spans = self.spans(1)
        count = {}
        for s in spans:
            count[s["stage"], s["name"]] = count.get((s["stage"], s["name"]), 0) + 1
        self.assertEqual(count, {("mark", "step"): 10, ("forward", "micro-batch 0"): 10,
                                 ("forward", "micro-batch 1"): 10, ("backward", "micro-batch 0 chunk 1"): 10,
                                 ("backward", "micro-batch 1 chunk 1"): 10})
        for s in spans:
            if s["stage"] != "mark":
                self.assertGreater(s["duration_ns"], 400_000)
                self.assertLess(s["cpu_ns"], s["duration_ns"])

    def test_children_and_threads(self):
        self.job("dlsym", 20, "fork")
        self.assertEqual(len(self.spans(0)), 20)  # none of the child
        self.out = self.dir / "threads"
        self.job("dlsym", 500, "threads")
        self.assertEqual(len(self.spans(0)), 2001)
        self.assertEqual(len({s["thread"] for s in self.spans(0)}), 5)

    def test_a_known_process_becomes_a_rank_and_ends_at_once(self):
        result = self.run_xpurun("--no-report", "--", "bash", "-c", LATE_RANK, "late", VICTIM, "dlsym", 500, "threads",
                                 env=self.env(XPURUN_TEST_LOG=str(self.out / "xpurun.log")))
        self.assertEqual((result.returncode, result.stdout), (0, "with xpurun\n"), result.stderr)
        self.assertEqual(len(self.spans(0)), 2001)

    def test_switched_off(self):
        self.job("weak", 5, options=["--timing=off"])
        self.assertEqual(list(self.out.glob("ranks/*/*.xsp")), [])

    @unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
    def test_together_with_python(self):
        """Marks of a library in a Python process go with the spans of Python, in one file."""
        job = self.dir / "job.py"
        job.write_text("import ctypes, torch\n"
                       "step = ctypes.CDLL(None).xpurun_step\n"
                       "p = torch.nn.Parameter(torch.zeros(3))\n"
                       "optimizer = torch.optim.SGD([p], 0.1)\n"
                       "for i in range(30):\n"
                       "    for part in range(2):\n"
                       "        p.sum().backward()\n"
                       "        optimizer.step()\n"
                       "    step()\n")
        env = self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
        result = self.run_xpurun("--no-report", "--", xpurun_test.PYTHON, job, env=env)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual([p.name for p in (self.out / "ranks/0").glob("*.xsp")], ["spans-1.xsp"])
        stages = [s["stage"] for s in self.spans(0) if s["stage"] in ("mark", "optimizer")]
        self.assertEqual(stages, ["optimizer", "optimizer", "mark"] * 30)
        report = self.analysis()
        self.assertEqual((report["source"], report["steps"]), ("mark", 29))

    @unittest.skipUnless(shutil.which("cc") and shutil.which("c++"), "needs a compiler")
    def test_header(self):
        for compiler, standard in (("cc", "c99"), ("cc", "c17"), ("c++", "c++11"), ("c++", "c++20")):
            source = self.dir / ("x.c" if compiler == "cc" else "x.cpp")
            source.write_text("#include <xpurun.h>\nint main(void) { XPURUN_STEP(); XPURUN_FORWARD_BEGIN(0, -1); "
                              "XPURUN_FORWARD_END(); XPURUN_BACKWARD_BEGIN(1, 2); XPURUN_BACKWARD_END(); return 0; }\n")
            done = subprocess.run([compiler, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2",
                                   "-fPIE", "-pie", f"-I{SOURCE}/include", source, "-o", self.dir / "x"],
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), (compiler, standard))
            self.assertEqual(subprocess.run([self.dir / "x"]).returncode, 0)


if __name__ == "__main__":
    xpurun_test.main()
