"""Failures of xpurun's own streams, descriptors and files do not affect the job: closed readers, ulimit -f, -n."""

import os
import pathlib
import resource
import signal
import socket
import subprocess
import time

import xpurun_test
from xpurun_test import PROGRAM, PYTHON

HANG = """
import threading
def stands_still():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
stands_still()
"""


class GoneReaders(xpurun_test.Case):
    def test_the_supervisor_goes_on_when_nobody_reads_what_it_says(self):
        p = self.start_xpurun("--hang-timeout", "1", "--on-hang", "kill", "--", PYTHON, "-c", HANG)
        p.stderr.close()
        p.stdout.close()
        self.assertEqual(p.wait(60), 124)
        self.assertEqual(self.manifest()["outcome"], "hang")
        self.assertEqual(list(self.strays()), [])

    def test_a_reader_that_stands_still_does_not_hold_the_supervisor(self):
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        os.set_blocking(write_end, False)
        try:
            while True:
                os.write(write_end, b"x" * 4096)
        except BlockingIOError:
            pass
        os.set_blocking(write_end, True)
        p = self.start_xpurun("--hang-timeout", "1", "--on-hang", "kill", "--", PYTHON, "-c", HANG, stderr=write_end)
        os.close(write_end)
        self.assertEqual(p.wait(60), 124)

    def test_the_job_has_the_dispositions_that_xpurun_was_started_with(self):
        for restore in (True, False):  # Python itself ignores SIGPIPE and SIGXFSZ
            with self.subTest(restore=restore):
                self.out = self.dir / f"run{restore}"
                words = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]
                plain = subprocess.run(words, capture_output=True, text=True, restore_signals=restore)
                ours = self.run_xpurun("--", *words, restore_signals=restore)
                self.assertEqual(ours.stdout, plain.stdout)

    def test_other_commands_die_quietly_with_their_reader(self):
        p = subprocess.Popen([PROGRAM, "help", "run"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             preexec_fn=lambda: time.sleep(0.3))
        p.stdout.close()
        self.assertEqual(p.stderr.read(), b"")
        p.stderr.close()
        self.assertIn(p.wait(20), (0, -signal.SIGPIPE))


class FileSize(xpurun_test.Case):
    def test_a_file_at_its_limit_does_not_end_the_supervisor(self):
        # run.json and xpurun.log are longer than this.
        result = self.run_xpurun(
            "--hang-timeout",
            "1",
            "--",
            PYTHON,
            "-c",
            "import sys, time; time.sleep(2); sys.exit(5)",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)),
        )
        self.assertEqual(result.returncode, 5, result.stderr)
        self.assertEqual(list(self.strays()), [])

    def test_the_job_has_its_own_limit_and_signal(self):
        script = "dd if=/dev/zero of=big bs=4096 count=4 2>/dev/null; echo $?; ulimit -f"
        limit = dict(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
        plain = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=self.dir, **limit)
        self.assertEqual(self.run_xpurun("--no-report", "--", "bash", "-c", script, **limit).stdout, plain.stdout)
        self.assertEqual(plain.stdout.split("\n")[0], str(128 + signal.SIGXFSZ))


class OpenFiles(xpurun_test.Case):
    def limited(self, soft, hard):
        return dict(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))

    def test_the_command_is_started_or_the_reason_is_said(self):
        for n in range(3, 33):
            with self.subTest(limit=n):
                self.out = self.dir / str(n)
                result = self.run_xpurun("--", "sh", "-c", "echo ran; ulimit -n", timeout=60, **self.limited(n, n))
                if n >= 7:
                    self.assertEqual((result.stdout, result.returncode), (f"ran\n{n}\n", 0), result.stderr)
                elif n >= 4:
                    self.assertEqual((result.stdout, result.returncode), ("", 125))
                    self.assertIn("E-LIMIT", result.stderr)

    def test_the_soft_limit_is_raised_for_us_alone(self):
        result = self.run_xpurun("--", "sh", "-c", "echo ran; ulimit -Sn; ulimit -Hn", **self.limited(8, 64))
        self.assertEqual((result.stdout, result.returncode), ("ran\n8\n64\n", 0), result.stderr)
        self.assertTrue((self.out / "report.html").exists())

    def test_signals_are_heard_under_a_low_limit(self):
        for n in (7, 9, 12):
            with self.subTest(limit=n):
                self.out = self.dir / f"signal{n}"
                p = self.start_xpurun(
                    "--",
                    "sh",
                    "-c",
                    "trap 'echo got; exit 3' TERM; echo ready; while :; do sleep 0.1; done",
                    **self.limited(n, n),
                )
                self.assertEqual(p.stdout.readline(), "ready\n")
                p.send_signal(signal.SIGTERM)
                self.assertEqual((p.stdout.readline(), p.wait(30)), ("got\n", 3))

    def test_a_connection_that_cannot_be_taken_does_not_spin(self):
        p = self.start_xpurun("--", "sh", "-c", "echo ready; sleep 60")
        self.assertEqual(p.stdout.readline(), "ready\n")
        path = self.wait_for(lambda: (self.out / "run.json").exists() and self.manifest().get("control"), "socket")
        self.wait_for(lambda: self.manifest()["main_pid"], "main process")
        open_now = len(os.listdir(f"/proc/{p.pid}/fd"))
        resource.prlimit(p.pid, resource.RLIMIT_NOFILE, (3, resource.prlimit(p.pid, resource.RLIMIT_NOFILE)[1]))
        client = socket.socket(socket.AF_UNIX)
        self.addCleanup(client.close)
        client.connect(path)

        def cpu():
            fields = pathlib.Path(f"/proc/{p.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        before = cpu()
        time.sleep(2)
        self.assertLess(cpu() - before, 1)
        self.assertGreater(open_now, 3)
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(30), 143)


if __name__ == "__main__":
    xpurun_test.main()
