"""Cases 1 to 11, 68: disks that are full, gone, read-only, slow or stalled."""

import os
import shutil
import signal
import subprocess
import time

import attack
import lane
from attack import HANG, PROGRAM, PYTHON, seconds_of


class FullDisk(attack.Case):
    def test_case_1_the_disk_fills_during_a_hang(self):
        disk = self.tmpfs()
        with open(disk / "ballast", "wb") as f:
            f.write(b"x" * (120 << 10))
        result = self.hang(15, runs=disk / "r")
        self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
        self.assert_told(result.stderr, "rank 0")
        self.assertNotIn("wait status 0x", result.stderr)

    def test_case_2_the_verdict_of_a_hang_is_told_though_the_disk_is_full(self):
        disk = self.tmpfs()
        runs = disk / "r"
        process = self.start_xpurun("--runs-dir", runs, "--hang-timeout", "2", "--", PYTHON, "-c", HANG, "8", out=False,
                                    env=self.rank_env())
        self.wait_for(lambda: runs.exists() and list(runs.glob("*/run.json")), "run.json")
        self.fill(disk)
        out, err = process.communicate(timeout=60)
        self.assertEqual((out, process.returncode), ("job done\n", 0), err)
        self.assert_told(err, "hang", "rank 0")

    def test_case_3_the_reason_of_a_kill_is_told_though_the_disk_is_full(self):
        disk = self.tmpfs()
        runs = disk / "r"
        process = self.start_xpurun(
            "--runs-dir",
            runs,
            "--hang-timeout",
            "2",
            "--on-hang",
            "kill",
            "--grace",
            "2s",
            "--",
            PYTHON,
            "-c",
            HANG,
            "60",
            out=False,
            env=self.rank_env(),
        )
        self.wait_for(lambda: runs.exists() and list(runs.glob("*/run.json")), "run.json")
        self.fill(disk)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 124, err)
        self.assert_told(err, "hang", "rank 0")

    def test_case_4_logs_on_a_full_disk_do_not_end_the_job(self):
        disk = self.tmpfs()
        code = "for i in range(20000): print(i, 'x' * 40)"
        result = self.run_xpurun(
            "--logs", "--runs-dir", disk / "r", "--", PYTHON, "-c", code, out=False, env=self.rank_env()
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("No space left", "".join(l for l in result.stderr.splitlines() if not l.startswith("xpurun")))
        self.assert_told(result.stderr, "log")
        # No output is lost, whatever its target.
        self.assertTrue(result.stdout.endswith("19999 " + "x" * 40 + "\n"), result.stdout[-200:])

    def test_case_8_a_disk_without_inodes(self):
        disk = self.tmpfs("size=4m,nr_inodes=8")
        result = self.hang(10, runs=disk / "r")
        self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
        self.assert_told(result.stderr, "rank 0")

    def test_case_68_full_devices_as_output(self):
        target = self.python("import time; print('up', flush=True); time.sleep(100)")
        with open("/dev/full", "w") as full:
            dumped = subprocess.run([PROGRAM, "stacks", "--pid", str(target.pid)], stdout=full, stderr=subprocess.PIPE,
                                    text=True, timeout=60)
            self.assertEqual(dumped.returncode, 1)
            self.assertIn("No space left", dumped.stderr)
            job = subprocess.run(
                self.command("--logs", "--", PYTHON, "-c", "print('x' * 5000)"),
                stdout=full,
                text=True,
                stderr=subprocess.PIPE,
                timeout=60,
                env=self.rank_env(),
                cwd=self.dir,
            )
        # The log has the output; the loss on the terminal is reported.
        self.assertEqual((self.out / "ranks/0/stdout.log").read_text(), "x" * 5000 + "\n")
        self.assert_told(job.stderr, "No space left")


class RunDirectory(attack.Case):
    def test_case_5_the_run_directory_is_removed_during_the_run(self):
        process = self.start_xpurun("--hang-timeout", "2", "--", PYTHON, "-c", HANG, "6", env=self.rank_env())
        self.wait_for(lambda: (self.out / "run.json").exists(), "run.json")
        shutil.rmtree(self.out)
        out, err = process.communicate(timeout=60)
        self.assertEqual((out, process.returncode), ("job done\n", 0), err)
        self.assert_told(err, "rank 0")

    def test_case_6_impossible_places(self):
        fifo = self.dir / "fifo"
        os.mkfifo(fifo)
        (self.dir / "file").write_text("")
        for option, place in (
            ("--out", fifo),
            ("--runs-dir", fifo),
            ("--out", self.dir / "file/below"),
            ("--runs-dir", self.dir / "file/below"),
            ("--out", "/proc/xpurun"),
            ("--runs-dir", "/proc"),
        ):
            with self.subTest(option=option, place=place):
                result = self.run_xpurun(option, place, "--", "echo", "ran", out=False, timeout=30)
                self.assertEqual((result.returncode, result.stdout), (125, ""), result.stderr)
                self.assertIn(str(place), result.stderr)
                self.assertIn("try", result.stderr)

    def test_case_7_a_working_directory_that_cannot_be_written_or_is_gone(self):
        readonly = self.tmpfs("size=64k,ro")
        gone = self.dir / "gone"
        script = f"mkdir {gone}; cd {gone}; rmdir {gone}; exec {PROGRAM} -- echo ran"
        for argv, cwd in (([PROGRAM, "--", "echo", "ran"], readonly), (["sh", "-c", script], self.dir)):
            with self.subTest(cwd=str(cwd)):
                result = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, env=self.env(), timeout=30)
                self.assertEqual((result.returncode, result.stdout), (125, ""), result.stderr)
                self.assertIn("xpurun-runs", result.stderr)


class Stalled(attack.Case):
    @lane.long
    def test_case_9_a_slow_file_system_costs_no_verdict(self):
        fs = self.stalling(delay=0.05)
        result = self.hang(25, runs=fs.path / "r")
        self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
        self.assert_told(result.stderr, "rank 0")

    def test_case_9_crash_notices_and_control_work_where_no_socket_can_be_made(self):
        fs = self.stalling()
        process = self.start_xpurun(
            "--out",
            fs.path / "r",
            "--",
            PYTHON,
            "-c",
            "import time; print('up', flush=True); time.sleep(100)",
            out=False,
            env=self.rank_env(),
        )
        self.assertEqual(process.stdout.readline(), "up\n")
        self.wait_for(lambda: (fs.path / "r/run.json").exists(), "run.json")
        asked = subprocess.run(
            [PROGRAM, "ctl", "--run", fs.path / "r", "status"], capture_output=True, text=True, timeout=30
        )
        self.assertEqual(asked.returncode, 0, asked.stderr)
        process.terminate()
        process.communicate(timeout=30)
        crash = self.run_xpurun("--out", fs.path / "c", "--", PYTHON, "-c", "import os; os.abort()", out=False,
                                env=self.rank_env(), timeout=60)
        self.assertEqual(crash.returncode, 134, crash.stderr)
        self.assertTrue(list((fs.path / "c").glob("dumps/*crash*")), crash.stderr)

    def test_case_10_a_job_ends_while_its_run_directory_stands_still(self):
        fs = self.stalling()
        process = self.start_xpurun("--out", fs.path / "r", "--", "sh", "-c", "echo up; read x; exit 7", out=False,
                                    stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), "up\n")
        self.wait_for(lambda: (fs.path / "r/run.json").exists(), "run.json")
        fs.stall()
        time.sleep(1.5)  # the supervisor meets the stall
        process.stdin.write("\n")
        process.stdin.flush()
        try:
            self.assertEqual(process.wait(timeout=20), 7)
        finally:
            fs.go_on()

    def test_case_11_a_signal_reaches_the_job_while_its_run_directory_stands_still(self):
        fs = self.stalling()
        code = ("import signal, sys, time\n"
                "def end(*a): print('%.3f' % time.monotonic(), flush=True); sys.exit(9)\n"
                "signal.signal(signal.SIGTERM, end)\nprint('up', flush=True)\n"
                "while True: time.sleep(0.01)")
        process = self.start_xpurun("--out", fs.path / "r", "--hang-timeout", "1", "--", PYTHON, "-c", code, out=False,
                                    env=self.rank_env())
        self.assertEqual(process.stdout.readline(), "up\n")
        self.wait_for(lambda: (fs.path / "r/run.json").exists(), "run.json")
        fs.stall()
        time.sleep(2.5)  # the supervisor meets the stall
        sent = time.monotonic()
        process.send_signal(signal.SIGTERM)
        try:
            reached = self.wait_line(process, 15)
            self.assertLess(float(reached) - sent, 1.0, "promised: 100 ms; this machine may be loaded")
            self.assertEqual(process.wait(timeout=20), 9)
        finally:
            fs.go_on()

    def wait_line(self, process, seconds):
        import select
        self.assertTrue(select.select([process.stdout], [], [], seconds)[0], "the signal did not reach the job")
        return process.stdout.readline()

    def test_case_10_files_on_a_stalled_file_system_are_no_matter_of_ours(self):
        """The job itself waits for the disk, not xpurun: the hang is reported, and no process is left stopped."""
        fs = self.stalling()
        (fs.path / "data").write_bytes(b"x" * 100)
        code = "print('up', flush=True)\nopen(%r, 'rb').read()\nprint('job done', flush=True)" % str(fs.path / "data")
        fs.stall()
        process = self.start_xpurun("--hang-timeout", "1", "--", PYTHON, "-c", code, env=self.rank_env())
        self.assertEqual(process.stdout.readline(), "up\n")
        self.wait_for(lambda: list(self.out.glob("dumps/*/dump.json")), "dump", 60)
        fs.go_on()
        out, err = process.communicate(timeout=60)
        self.assertEqual((out, process.returncode), ("job done\n", 0), err)

    @lane.long
    def test_case_10_long_stall_and_end(self):
        """The exit status comes in bounded time, also with a reported hang, logs and a report."""
        fs = self.stalling()
        process = self.start_xpurun(
            "--out",
            fs.path / "r",
            "--logs",
            "--hang-timeout",
            "1",
            "--",
            PYTHON,
            "-c",
            HANG,
            "4",
            out=False,
            env=self.rank_env(),
        )
        self.wait_for(lambda: (fs.path / "r/run.json").exists(), "run.json")
        fs.stall()
        took, _ = seconds_of(lambda: process.wait(timeout=60))
        self.assertLess(took, 40)
        fs.go_on()
        self.assertEqual(process.returncode, 0)


if __name__ == "__main__":
    attack.main()
