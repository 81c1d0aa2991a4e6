"""xpurun --logs: every rank's output in files of its own, repeated on the terminal, with --prefix labelled."""

import xpurun_test
from xpurun_test import PYTHON

# Two "ranks" as any launcher would start them, without the weight of a framework.
LAUNCH = r"""
for r in 0 1; do
  RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 python -c '
import os, sys
r = os.environ["RANK"]
sys.stdout.write("out " + r + "\n")
sys.stderr.write("err " + r + "\n")
sys.stdout.write("unfinished" + r)
' & done; wait; echo launcher
""".replace("python", PYTHON)


class Logs(xpurun_test.Case):
    def test_files_and_streams(self):
        result = self.run_xpurun("--logs", "--", "bash", "-c", LAUNCH)
        self.assertEqual(result.returncode, 0, result.stderr)
        for r in "01":
            rank = self.out / "ranks" / r
            self.assertEqual((rank / "stdout.log").read_text(), f"out {r}\nunfinished{r}")
            self.assertEqual((rank / "stderr.log").read_text(), f"err {r}\n")
            self.assertIn(f"out {r}\n", result.stdout)
            self.assertIn(f"unfinished{r}", result.stdout)
            self.assertIn(f"err {r}\n", result.stderr)
        self.assertIn("launcher\n", result.stdout)

    def test_prefix(self):
        result = self.run_xpurun("--prefix", "--", "bash", "-c", LAUNCH)
        self.assertIn("[1] out 1\n", result.stdout)
        self.assertIn("[0] err 0\n", result.stderr)

    def test_a_rank_that_somebody_redirected_is_left_alone(self):
        script = LAUNCH.replace("' &", f"' > {self.dir}/own.$r &")
        self.run_xpurun("--logs", "--", "bash", "-c", script)
        self.assertEqual((self.dir / "own.1").read_text(), "out 1\nunfinished1")
        self.assertFalse((self.out / "ranks" / "1" / "stdout.log").exists())

    def test_without_the_flag_nothing_is_touched(self):
        result = self.run_xpurun("--", "bash", "-c", LAUNCH)
        # Two processes on one pipe: their words may stand in one line.
        self.assertEqual((result.stdout.count("out 1"), result.stdout.count("out 0")), (1, 1))
        self.assertFalse((self.out / "ranks").exists())


if __name__ == "__main__":
    xpurun_test.main()
