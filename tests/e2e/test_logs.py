"""xpurun --logs: every rank's output in separate files, repeated on the terminal, labelled with --prefix."""

import contextlib
import os
import pathlib
import resource
import signal
import subprocess

import xpurun_test
from xpurun_test import PYTHON

# Two "ranks" with a launcher's variables, without a framework.
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
        # Two processes on one pipe: their words may be on one line.
        self.assertEqual((result.stdout.count("out 1"), result.stdout.count("out 0")), (1, 1))
        self.assertFalse((self.out / "ranks").exists())

    def test_an_unfinished_line_does_not_share_its_line_with_another_rank(self):
        result = self.run_xpurun("--prefix", "--", "bash", "-c", LAUNCH)
        lines = result.stdout.split("\n")
        self.assertIn("[0] unfinished0", lines)
        self.assertIn("[1] unfinished1", lines)


RANK0 = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}


class Trouble(xpurun_test.Case):
    """The ranks keep writing, whatever happens to the log files, to xpurun's streams and to xpurun itself."""

    def run_rank(self, *options, code, **kwargs):
        return self.run_xpurun("--logs", "--no-report", *options, "--", PYTHON, "-c", code,
                               env=self.env(**RANK0, PYTHONUNBUFFERED="1"), **kwargs)

    def test_a_file_that_takes_no_more_costs_the_rank_nothing(self):
        code = "for i in range(2000): print(i, 'x' * 40)"
        result = self.run_rank(code=code, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "".join(f"{i} {'x' * 40}\n" for i in range(2000)))
        said = [line for line in result.stderr.split("\n") if "stdout.log" in line]
        self.assertEqual(len(said), 1, result.stderr)
        self.assertIn("File too large", said[0])
        self.assertTrue(result.stdout.startswith((self.out / "ranks" / "0" / "stdout.log").read_text()))

    def test_a_full_disk_costs_the_rank_nothing(self):
        small = self.dir / "small"
        small.mkdir()
        words = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)]
        if subprocess.run(words, capture_output=True).returncode != 0:
            self.skipTest("may not mount")
        self.addCleanup(subprocess.run, ["umount", "-l", str(small)])
        self.out = small / "run"
        result = self.run_rank(code="for i in range(20000): print(i, 'x' * 40)")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("\n"), 20000)
        self.assertIn("No space left on device", result.stderr)

    def test_a_full_standard_output_is_said_once_and_the_file_has_it_all(self):
        with open("/dev/full", "w") as full:
            p = self.start_xpurun("--logs", "--", PYTHON, "-c", "for i in range(3000): print(i)",
                                  env=self.env(**RANK0, PYTHONUNBUFFERED="1"), stdout=full)
        said = p.communicate(timeout=60)[1]
        self.assertEqual(p.returncode, 0, said)
        self.assertEqual(said.count("No space left on device"), 1, said)
        self.assertEqual((self.out / "ranks/0/stdout.log").read_text(), "".join(f"{i}\n" for i in range(3000)))

    def test_a_reader_that_is_gone_costs_the_rank_nothing(self):
        p = self.start_xpurun(
            "--logs",
            "--",
            PYTHON,
            "-c",
            "import time\nfor i in range(300): print(i); time.sleep(.002)",
            env=self.env(**RANK0, PYTHONUNBUFFERED="1"),
        )
        p.stdout.close()
        p.stderr.close()
        self.assertEqual(p.wait(60), 0)
        self.assertEqual((self.out / "ranks/0/stdout.log").read_text(), "".join(f"{i}\n" for i in range(300)))

    def test_sigkill_of_xpurun_leaves_ranks_and_logs_alone(self):
        code = ("import os, time\nfor i in range(40):\n    print(i)\n    time.sleep(0.05)\n"
                f"open({str(self.dir / 'ended')!r}, 'w').close()")
        p = self.start_xpurun("--logs", "--", PYTHON, "-c", code, env=self.env(**RANK0, PYTHONUNBUFFERED="1"))
        log = self.out / "ranks" / "0" / "stdout.log"
        self.wait_for(lambda: log.exists() and "3\n" in log.read_text(), "lines")
        p.kill()
        p.wait()
        self.wait_for((self.dir / "ended").exists, "end of the rank")
        whole = "".join(f"{i}\n" for i in range(40))
        self.wait_for(lambda: log.read_text() == whole, "whole log")
        self.wait_for(lambda: not list(self.strays()), "end of the relay")

    def relay(self):
        for pid in self.strays():
            with contextlib.suppress(OSError):
                if pathlib.Path(f"/proc/{pid}/comm").read_text() == "log-relay\n":
                    return pid
        return 0

    def test_sigkill_of_the_relay_leaves_the_rank_and_later_lines_alone(self):
        go = self.dir / "go"
        code = ("import os, time\nprint('first')\n"
                f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
                "for i in range(40): print(i)")
        p = self.start_xpurun("--logs", "--", PYTHON, "-c", code, env=self.env(**RANK0, PYTHONUNBUFFERED="1"))
        self.assertEqual(p.stdout.readline(), "first\n")
        log = self.out / "ranks/0/stdout.log"
        # Output that a killed relay has read and not yet written is lost.
        self.wait_for(lambda: log.exists() and log.read_text() == "first\n", "first line in the log")
        for _ in range(2):
            killed = self.wait_for(self.relay, "relay")
            os.kill(killed, signal.SIGKILL)
            self.wait_for(lambda: self.relay() not in (0, killed), "its successor")  # noqa: B023
        go.touch()
        lines = "".join(f"{i}\n" for i in range(40))
        out, err = p.communicate(timeout=60)
        self.assertEqual((out, p.returncode), (lines, 0), err)
        self.assertEqual(log.read_text(), "first\n" + lines)
        self.wait_for(lambda: not list(self.strays()), "end of the relay")

    def test_what_a_scheduler_sends_to_all_processes_does_not_end_the_relay(self):
        code = ("import signal, sys, time\nsignal.signal(15, lambda *a: (print('saving'), sys.exit(0)))\n"
                "print('ready')\nwhile True: time.sleep(0.05)")
        p = self.start_xpurun("--logs", "--", PYTHON, "-c", code, env=self.env(**RANK0, PYTHONUNBUFFERED="1"))
        self.assertEqual(p.stdout.readline(), "ready\n")
        # Not to xpurun, which would forward the signal, so that the rank would get it twice.
        for pid in set(self.strays()) - {p.pid}:
            os.kill(pid, signal.SIGTERM)
        self.assertEqual((p.stdout.readline(), p.wait(30)), ("saving\n", 0))
        self.assertEqual((self.out / "ranks/0/stdout.log").read_text(), "ready\nsaving\n")

    def test_a_daemon_that_stays_keeps_its_log_and_nobody_waits_for_it(self):
        code = ("import os, time\nprint('rank')\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(2)\n"
                "    print('daemon')\n")
        result = self.run_rank(code=code)
        self.assertEqual((result.stdout, result.returncode), ("rank\n", 0), result.stderr)
        log = self.out / "ranks/0/stdout.log"
        self.wait_for(lambda: log.read_text() == "rank\ndaemon\n", "the daemon's line")

    def test_a_stopped_reader_can_be_given_up(self):
        p = self.start_xpurun("--logs", "--no-report", "--", PYTHON, "-c",
                              "import os\nos.write(1, b'x' * 1000000)",
                              env=self.env(**RANK0))
        main = self.wait_for(lambda: (self.out / "run.json").exists() and self.manifest()["main_pid"], "main process")
        self.wait_for(lambda: not os.path.exists(f"/proc/{main}"), "end of the rank")
        self.assertIsNone(p.poll())
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(30), 0)


if __name__ == "__main__":
    xpurun_test.main()
