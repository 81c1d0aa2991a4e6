"""Cases 12 to 17: too few files, processes, memory, file size, time; no standard streams."""

import signal
import subprocess

import attack
import lane
from attack import HANG, PROGRAM, PYTHON, as_nobody, limits


class Limits(attack.Case):
    def assert_started_or_told(self, n):
        result = self.run_xpurun("--out", self.dir / f"files{n}", "--", "echo", "ran", out=False, timeout=15,
                                 preexec_fn=limits(NOFILE=n))
        if result.returncode == 0:
            self.assertEqual(result.stdout, "ran\n", result.stderr)
        else:
            self.assertEqual((result.returncode, result.stdout), (125, ""), result.stderr)
            # Below six the dynamic linker itself cannot open a library.
            self.assertTrue(result.stderr.strip())

    def test_case_12_few_files(self):
        for n in (7, 8, 9, 10, 11, 12, 16):
            with self.subTest(files=n):
                self.assert_started_or_told(n)

    @lane.long
    def test_case_12_any_number_of_files(self):
        for n in range(5, 33):
            with self.subTest(files=n):
                self.assert_started_or_told(n)

    def test_case_12_a_signal_ends_it_with_few_files(self):
        process = self.start_xpurun("--", "sleep", "60", preexec_fn=limits(NOFILE=10))
        try:
            process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            process.terminate()
        self.assertIn(process.wait(timeout=20), (125, 128 + signal.SIGTERM))

    def test_case_12_a_hang_with_16_files(self):
        result = self.hang(12, preexec_fn=limits(NOFILE=16))
        self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
        self.assert_told(result.stderr, "rank 0")

    def test_case_13_few_processes(self):
        self.open_to_all()
        for n in (1, 2, 3, 5, 8):
            with self.subTest(processes=n):
                result = self.run_hang(
                    [PROGRAM, "--out", self.dir / f"p{n}", "--hang-timeout", "1", "--", PYTHON, "-c", HANG, "8"],
                    env=self.rank_env(HOME="/tmp"),
                    preexec_fn=as_nobody(limits(NPROC=n)),
                )
                if result.returncode == 0:
                    self.assertEqual(result.stdout, "job done\n", result.stderr)
                    self.assert_told(result.stderr, "rank 0")
                else:
                    self.assertIn(result.returncode, (125, 126), result.stderr)
                    self.assertIn("Resource temporarily unavailable", result.stderr)

    def test_case_14_little_memory(self):
        for megabytes in (400, 100):
            with self.subTest(megabytes=megabytes):
                result = self.run_hang(
                    [
                        PROGRAM,
                        "--out",
                        self.dir / f"m{megabytes}",
                        "--hang-timeout",
                        "1",
                        "--",
                        PYTHON,
                        "-c",
                        HANG,
                        "8",
                    ],
                    env=self.rank_env(),
                    preexec_fn=limits(AS=megabytes << 20),
                )
                self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
                self.assert_told(result.stderr, "rank 0")
        result = self.run_xpurun("--out", self.dir / "m30", "--", "sh", "-c", "echo ran", out=False,
                                 preexec_fn=limits(AS=30 << 20))
        self.assertEqual((result.stdout, result.returncode), ("ran\n", 0), result.stderr)

    def test_case_15_small_files(self):
        for size in (0, 2048, 65536):
            with self.subTest(size=size):
                result = self.run_hang(
                    [PROGRAM, "--out", self.dir / f"s{size}", "--hang-timeout", "1", "--", PYTHON, "-c", HANG, "8"],
                    env=self.rank_env(),
                    preexec_fn=limits(FSIZE=size),
                )
                self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
                self.assert_told(result.stderr, "rank 0")

    def test_case_15_the_job_still_dies_of_its_own_limit(self):
        script = "dd if=/dev/zero of=big bs=4096 count=100 2>/dev/null; kill -l $?"
        result = self.run_xpurun("--", "bash", "-c", script, preexec_fn=limits(FSIZE=65536))
        self.assertEqual(result.stdout, "XFSZ\n", result.stderr)

    def test_case_16_little_time_and_stack(self):
        result = self.run_xpurun("--out", self.dir / "cpu", "--", "bash", "-c", "while :; do :; done", out=False,
                                 preexec_fn=limits(CPU=1))
        self.assertIn(result.returncode, (128 + signal.SIGXCPU, 128 + signal.SIGKILL), result.stderr)
        result = self.run_xpurun(
            "--out",
            self.dir / "stack",
            "--hang-timeout",
            "1",
            "--",
            PYTHON,
            "-c",
            HANG,
            "3",
            out=False,
            env=self.rank_env(),
            preexec_fn=limits(STACK=128 << 10),
        )
        self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
        self.assert_told(result.stderr, "rank 0")

    def test_case_17_closed_standard_streams(self):
        for redirection, kept in (("<&-", "stdout"), (">&-", "stderr"), ("2>&-", "stdout"), ("<&- >&-", "stderr"),
                                  ("<&- 2>&-", "stdout"), ("<&- >&- 2>&-", None)):
            with self.subTest(closed=redirection):
                name = "closed" + str(len(list(self.dir.iterdir())))
                # The job prints its open descriptors.
                script = (f"'{PROGRAM}' --out '{self.dir}/{name}' -- "
                          f"sh -c 'for n in 0 1 2; do test -e /proc/$$/fd/$n && echo $n; done > \"$0\"; exit 5' "
                          f"'{self.dir}/{name}.open' {redirection}")
                bare = script.replace(f"'{PROGRAM}' --out '{self.dir}/{name}' -- ", "").replace(".open", ".bare")
                self.assertEqual(
                    subprocess.run(["sh", "-c", script], env=self.env(), cwd=self.dir, timeout=30).returncode, 5
                )
                self.assertEqual(
                    subprocess.run(["sh", "-c", bare], env=self.env(), cwd=self.dir, timeout=30).returncode, 5
                )
                self.assertEqual((self.dir / f"{name}.open").read_text(), (self.dir / f"{name}.bare").read_text())


if __name__ == "__main__":
    attack.main()
