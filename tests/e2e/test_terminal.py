"""On a real terminal (a pty, read by a small terminal emulator): the status line, Ctrl-C, Ctrl-Z, and xpurun top."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import xpurun_test
from tiny_terminal import Terminal
from xpurun_test import PROGRAM, PYTHON

# Two ranks by their environment: both print complete lines to the terminal, and one line comes in two halves.
LAUNCHER = """
import os, subprocess, sys
ranks = [subprocess.Popen([sys.executable, "-c", os.environ["RANK_CODE"]],
                          env={**os.environ, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": "2",
                               "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "x",
                               "MASTER_ADDR": "localhost", "MASTER_PORT": "1"})
         for r in range(2)]
sys.exit(max(r.wait() for r in ranks))
"""
STEPS = """
import os, sys, time
rank = os.environ["RANK"]
for step in range(60):
    os.write(1, f"rank {rank} step {step} done\\n".encode())  # print() may write the line and its end apart
    time.sleep(0.05)
"""
WAITS = "import loader; loader.in_the_loader()"
LOADER = """
import threading
def in_the_loader():
    threading.Event().wait(60)
"""


class OnTerminal:
    """A program on its own pty, and its screen."""

    def __init__(self, args, rows=24, columns=80, env=None, cwd=None):
        self.terminal = Terminal(rows, columns)
        self.raw = ""
        self.status = None
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execvpe(args[0], args, {**env, "TERM": "xterm"})
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        end = time.monotonic() + seconds
        while self.status is None and time.monotonic() < end:
            if select.select([self.master], [], [], 0.05)[0]:
                try:
                    data = os.read(self.master, 65536).decode(errors="replace")
                except OSError:
                    data = ""
                if not data:
                    self.status = os.waitpid(self.pid, 0)[1]
                self.raw += data
                self.terminal.feed(data)

    def until(self, condition, what, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            if self.status is not None:
                break
            self.read(0.05)
        if not condition():
            raise AssertionError(f"no {what}:\n" + "\n".join(self.terminal.lines()))

    def finish(self, seconds=30):
        self.read(seconds)
        if self.status is None:
            raise AssertionError("still running:\n" + "\n".join(self.terminal.lines()))
        return os.waitstatus_to_exitcode(self.status)

    def type(self, text):
        os.write(self.master, text.encode())

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)


class TerminalCase(xpurun_test.Case):
    def setUp(self):
        super().setUp()
        (self.dir / "loader.py").write_text(LOADER)

    def on_terminal(self, *args, rows=24, columns=80, rank_code=STEPS):
        session = OnTerminal([PROGRAM, *args], rows, columns, self.env(RANK_CODE=rank_code), self.dir)
        self.addCleanup(session.close)
        return session

    def job(self, *options, **kwargs):
        return self.on_terminal("--out", str(self.out), *options, "--", PYTHON, "-c", LAUNCHER, **kwargs)


class StatusLine(TerminalCase):
    def test_it_stays_below_what_the_ranks_print(self):
        for columns in (80, 40):
            with self.subTest(columns=columns):
                self.out = self.dir / f"run{columns}"
                session = self.job("--no-report", rows=12, columns=columns)
                session.until(lambda s=session: "2 ranks | all active" in s.terminal.lines()[-1], "status line")
                self.assertEqual(session.finish(), 0)
                # Every line of the ranks is intact, and no text of xpurun is left between or below them.
                printed = [line for line in session.terminal.text().split("\n") if line]
                self.assertEqual(
                    sorted(printed), sorted(f"rank {r} step {s} done" for r in range(2) for s in range(60))
                )
                self.assertEqual((session.terminal.top, session.terminal.bottom), (0, 11))

    def test_ctrl_c_is_as_ever(self):
        session = self.job("--no-report", rank_code=WAITS)
        session.until(lambda: "2 ranks" in session.terminal.lines()[-1], "status line")
        session.type("\x03")
        self.assertNotEqual(session.finish(), 0)
        self.assertNotIn("ranks |", session.terminal.text())
        self.assertEqual(self.manifest()["outcome"], "interrupted")

    def test_ctrl_z_gives_the_line_back(self):
        # A shell in between, because job control needs one.
        command = f"{PROGRAM} --out {self.out} --no-report -- {PYTHON} -c '{LAUNCHER}'"
        session = OnTerminal(["bash", "--norc", "--noprofile", "--noediting", "-i"], 24, 80,
                             self.env(RANK_CODE=STEPS.replace("60", "100"), PS1="$ "), self.dir)
        self.addCleanup(session.close)
        session.type("stty -echo\r")
        session.read(0.5)
        (self.dir / "job.sh").write_text(command + "\n")
        session.type("source job.sh\r")
        session.until(lambda: "2 ranks" in session.terminal.lines()[-1], "status line")
        session.type("\x1a")
        session.until(lambda: "Stopped" in session.terminal.text(), "stop")
        session.read(0.3)
        self.assertEqual(session.terminal.bottom, 23)
        self.assertNotIn("2 ranks", "\n".join(session.terminal.lines()))
        session.type("fg >/dev/null\r")
        session.until(lambda: "2 ranks" in session.terminal.lines()[-1], "status line again")
        session.until(lambda: "step 99" in session.terminal.text(), "the end")
        session.type("exit\r")
        session.read(5)

    def test_a_killed_xpurun_leaves_no_line(self):
        # A shell in between: the end of a terminal's session leader hangs up the terminal.
        command = f"{PROGRAM} --out {self.out} --no-report -- {PYTHON} -c '{LAUNCHER}'; sleep 600"
        session = OnTerminal(["sh", "-c", command], 24, 80, self.env(RANK_CODE=WAITS), self.dir)
        self.addCleanup(session.close)
        session.until(lambda: "2 ranks" in session.terminal.lines()[-1], "status line")
        self.assertEqual((session.terminal.top, session.terminal.bottom), (0, 22))
        os.kill(self.manifest()["supervisor_pid"], signal.SIGKILL)
        session.until(lambda: (session.terminal.top, session.terminal.bottom) == (0, 23), "restored terminal")
        self.assertNotIn("ranks", session.terminal.text())
        session.type("\x03")
        session.finish()

    def test_never_where_it_is_not_wanted(self):
        for options, stream in ((("--status", "never"), None), (("-q",), None), (("--status", "always"), "2>err")):
            with self.subTest(options=options):
                self.out = self.dir / ("run" + options[-1].strip("-"))
                words = [PROGRAM, "--out", str(self.out), "--no-report", *options, "--", PYTHON, "-c", LAUNCHER]
                if stream:
                    words = ["sh", "-c", 'exec "$@" 2>err', "sh", *words]
                session = OnTerminal(words, 24, 80, self.env(RANK_CODE="import time; time.sleep(1.5)"), self.dir)
                self.addCleanup(session.close)
                self.assertEqual(session.finish(), 0)
                self.assertNotIn("\x1b", session.raw)
        self.assertEqual((self.dir / "err").read_text(), "")

    def test_a_single_process_has_one_only_on_request(self):
        sleep = [PYTHON, "-c", "import time; time.sleep(2.2)"]
        plain = self.on_terminal("--out", str(self.dir / "a"), "--no-report", "--", *sleep)
        self.assertEqual(plain.finish(), 0)
        self.assertNotIn("\x1b", plain.raw)
        asked = self.on_terminal("--out", str(self.dir / "b"), "--no-report", "--status", "always", "--", *sleep)
        asked.until(lambda: "1 rank |" in asked.terminal.lines()[-1], "status line")
        self.assertEqual(asked.finish(), 0)


HEARS = """
import os, signal, subprocess, sys, time
if len(sys.argv) > 1:
    rank = subprocess.Popen([sys.executable, "-c", os.environ["RANK_CODE"]])
    while not os.path.exists("rank-ready"):
        time.sleep(0.01)
def hang_up(*_):
    open("heard", "a").write("command\\n")
    sys.exit(3)
signal.signal(signal.SIGHUP, hang_up)
open("ready", "w").close()
while True:
    time.sleep(0.05)  # one long sleep would go on if the signal came just before it
"""


class HangUp(TerminalCase):
    """The terminal hangs up: the kernel sends SIGHUP to the session leader, which is xpurun here."""

    def hang_up(self, *words, rank_code=""):
        session = OnTerminal(words, env=self.env(RANK_CODE=rank_code), cwd=self.dir)
        self.addCleanup(self.end, session)
        self.wait_for((self.dir / "ready").exists, "the command")
        os.close(session.master)
        return session

    def ended(self, session):
        if session.status is None and os.waitpid(session.pid, os.WNOHANG)[0] == session.pid:
            session.status = 0
        return session.status is not None

    def end(self, session):
        if not self.ended(session):
            os.kill(session.pid, signal.SIGKILL)
            os.waitpid(session.pid, 0)

    def test_the_command_hears_of_it(self):
        session = self.hang_up(PROGRAM, "--out", str(self.out), "--no-report", "--", PYTHON, "-c", HEARS)
        self.wait_for(lambda: self.ended(session), "end")
        self.assertEqual((self.dir / "heard").read_text(), "command\n")
        self.assertEqual(self.manifest()["outcome"], "interrupted")

    def test_so_do_those_that_the_command_leaves_behind(self):
        rank = (
            "import signal, sys, time\nsignal.signal(signal.SIGHUP, lambda *a: (open('heard', 'a').write('rank\\n'),"
            " sys.exit()))\nopen('rank-ready', 'w').close()\nwhile True: time.sleep(0.05)"
        )
        session = self.hang_up(PROGRAM, "--out", str(self.out), "--no-report", "--", PYTHON, "-c", HEARS, "with-rank",
                               rank_code=rank)
        self.wait_for(lambda: self.ended(session), "end")
        # Perhaps twice: from xpurun, and from the kernel when xpurun, the session leader, ends.
        self.wait_for(lambda: (self.dir / "heard").read_text().startswith("command\nrank\n"), "the rank's end")

    def test_nohup_stays(self):
        code = "import time\nopen('ready', 'w').close()\ntime.sleep(3)\nopen('whole', 'w').close()"
        session = self.hang_up("sh", "-c", 'trap "" HUP; exec "$@"', "sh", PROGRAM, "--out", str(self.out),
                               "--no-report", "--", PYTHON, "-c", code)
        self.wait_for(lambda: self.ended(session), "end")
        self.assertTrue((self.dir / "whole").exists())
        self.assertEqual(self.manifest()["outcome"], "exit")


class Top(TerminalCase):
    def start(self):
        job = self.start_xpurun("--no-report", "--", PYTHON, "-c", LAUNCHER, env=self.env(RANK_CODE=WAITS))
        self.wait_for(lambda: len(self.rank_pids()) == 2, "both ranks")
        self.wait_for(lambda: self.top_once().stdout.count(" in_the_loader") == 2, "positions of both ranks")
        return job

    def top_once(self):
        return subprocess.run([PROGRAM, "top", "--once", self.out], capture_output=True, text=True, timeout=30)

    def test_on_a_terminal_and_in_a_pipe(self):
        job = self.start()
        once = self.top_once()
        self.assertEqual((once.returncode, once.stderr), (0, ""))
        lines = once.stdout.splitlines()
        self.assertEqual(lines[1].split(), ["RANK", "PID", "STATE", "STILL", "CPU", "MEMORY", "WHERE"])
        self.assertEqual([line.split()[0] for line in lines[2:]], ["0", "1"])
        # Not the line in threading.py.
        self.assertEqual(lines[2].split("  ")[-1], "loader.py:4 in_the_loader")
        self.wait_for(lambda: "in_the_loader (loader.py:4)" in subprocess.run(
            [PROGRAM, "runs", "show", self.out], capture_output=True, text=True, timeout=30).stdout, "the same line")
        for columns in (80, 40):
            with self.subTest(columns=columns):
                session = self.on_terminal("top", "--interval", "0.2", str(self.out), rows=10, columns=columns)
                session.until(lambda s=session: "loader.py:4 " in s.terminal.text(), "table")
                self.assertTrue(session.terminal.cursor_hidden)
                self.assertIn("q quit  s sort (by rank)  d dump now", session.terminal.text())
                session.type("s")
                session.until(lambda s=session: "s sort (no progress first)" in s.terminal.text(), "another order")
                if columns == 80:
                    session.type("d")
                    session.until(lambda s=session: "-request" in s.terminal.text(), "the dump")
                    self.assertTrue(list(self.out.glob("dumps/*-request/*.stacks.json")))
                session.type("q")
                self.assertEqual(session.finish(), 0)
                self.assertFalse(session.terminal.cursor_hidden)
                self.assertEqual([line for line in session.terminal.lines() if line], [])
        ending = self.on_terminal("top", str(self.out))
        ending.until(lambda: "in_the_loader" in ending.terminal.text(), "table")
        job.send_signal(signal.SIGINT)
        self.assertEqual(ending.finish(), 0)
        self.assertIn("the run has ended", ending.terminal.text())

    def test_signals_leave_the_terminal_as_it_was(self):
        job = self.start()
        for sent, keys in ((signal.SIGTERM, None), (signal.SIGINT, "\x03")):
            with self.subTest(signal=sent):
                session = self.on_terminal("top", str(self.out))
                session.until(lambda s=session: "in_the_loader" in s.terminal.text(), "table")
                if keys:
                    session.type(keys)
                else:
                    os.kill(session.pid, sent)
                self.assertEqual(session.finish(), 128 + sent)
                self.assertFalse(session.terminal.cursor_hidden)
                self.assertIsNone(session.terminal.main)
        self.assertIsNone(job.poll())


if __name__ == "__main__":
    sys.exit(xpurun_test.main())
