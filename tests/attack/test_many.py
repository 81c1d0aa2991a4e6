"""Cases 45, 64: many supervisors in one place, many ranks."""


import attack
import lane
from attack import PROGRAM, PYTHON


class Many(attack.Case):
    def test_case_45_eight_runs_below_one_directory(self):
        runs = self.dir / "runs"
        all_of_them = [
            self.start(PROGRAM, "--runs-dir", runs, "--", "sh", "-c", f"echo {i}; exit {i}") for i in range(8)
        ]
        for i, process in enumerate(all_of_them):
            out, err = process.communicate(timeout=60)
            self.assertEqual((out, process.returncode), (f"{i}\n", i), err)
        self.assertEqual(len([p for p in runs.iterdir() if not p.is_symlink()]), 8)
        self.assertTrue((runs / "latest/run.json").exists())

    def test_case_45_one_run_directory_has_one_supervisor(self):
        first = self.start_xpurun("--", "sh", "-c", "echo up; read x; exit 3", stdin=-1)
        self.assertEqual(first.stdout.readline(), "up\n")
        second = self.run_xpurun("--", "echo", "ran")
        self.assertEqual((second.returncode, second.stdout), (125, ""), second.stderr)
        first.communicate("\n", timeout=30)
        self.assertEqual(first.returncode, 3)

    def many_ranks(self, count):
        code = (
            "import os, subprocess, sys\nranks = [subprocess.Popen([sys.executable, '-S', '-c', sys.argv[1], '7' if i"
            f" == 5 else '0'], env={{**os.environ, 'RANK': str(i), 'LOCAL_RANK': str(i), 'WORLD_SIZE': '{count}'}}) for"
            f" i in range({count})]\nsys.exit(max(r.wait() for r in ranks))"
        )
        # Rank 5 waits for a lock; the others wait for a pipe that rank 5 would close.
        rank = (
            "import os, sys, threading\nseconds = float(sys.argv[1])\ndef stuck():\n    lock = threading.Lock()\n   "
            " lock.acquire()\n    lock.acquire(timeout=seconds or 7)\nstuck()"
        )
        result = self.run_xpurun(
            "--hang-timeout", "3", "--", PYTHON, "-S", "-c", code, rank, env=self.env(), timeout=180
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.manifest()["world_size"], count)
        self.assertEqual(len({p["rank"] for p in self.manifest()["processes"] if p["role"] == "rank"}), count)
        self.assertTrue(self.manifest()["stalls"], result.stderr)

    def test_case_64_sixteen_ranks(self):
        self.many_ranks(16)

    @lane.long
    def test_case_64_sixty_four_ranks(self):
        self.many_ranks(64)


if __name__ == "__main__":
    attack.main()
