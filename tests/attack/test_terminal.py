"""Cases 34, 35, 41: prompts, job control, the end of a terminal, stopped processes."""

import os
import pty
import re
import select
import signal
import time

import attack
from attack import PROGRAM, PYTHON


class OnTerminal(attack.Case):
    """A program as session leader of its own terminal, as under ssh -t, xterm -e or docker run -t."""

    def on_terminal(self, *argv, env=None):
        pid, fd = pty.fork()
        if pid == 0:
            os.chdir(self.dir)
            os.execvpe(str(argv[0]), [str(a) for a in argv], env or self.env(TERM="dumb"))
        self.fd, self.leader, self.text = fd, pid, ""
        self.addCleanup(self.end_leader)
        return pid

    def end_leader(self):
        if self.fd is not None:
            os.close(self.fd)
        if self.leader is not None:
            os.kill(self.leader, signal.SIGKILL)
            os.waitpid(self.leader, 0)

    def expect(self, pattern, seconds=20):
        end = time.monotonic() + seconds
        while not (match := re.search(pattern, self.text)):
            ready = select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]
            if not ready:
                self.fail(f"{pattern!r} did not appear; screen:\n{self.text}")
            try:
                self.text += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                self.fail(f"the terminal has ended before {pattern!r}; screen:\n{self.text}")
        self.text = self.text[match.end():]
        return match

    def type(self, text):
        os.write(self.fd, text.encode())

    def reap(self, seconds=20):
        status = self.wait_for(lambda: os.waitpid(self.leader, os.WNOHANG)[0] and True, "end of the leader", seconds)
        self.leader = None
        return status

    def hang_up(self):
        os.close(self.fd)
        self.fd = None

    HUP = ("import signal, sys, time\ndef h(*a): open('hup', 'w').close(); sys.exit(1)\n"
           "signal.signal(signal.SIGHUP, h)\nprint('up', flush=True)\n"
           "while True: time.sleep(0.05)")  # one long sleep would go on if the signal came just before it

    def test_case_35_a_hang_up_reaches_the_job(self):
        """D8: xpurun is the session leader, so only xpurun gets the kernel's SIGHUP."""
        self.on_terminal(PROGRAM, "--out", self.out, "--", PYTHON, "-c", self.HUP)
        # The whole line: a hang-up in the middle of the write is an error of print(), which ends the job.
        self.expect("up\r\n")
        self.hang_up()
        self.wait_for(lambda: (self.dir / "hup").exists(), "hang-up in the job")
        self.reap()

    def test_case_35_a_hang_up_ends_a_job_that_does_not_handle_it(self):
        self.on_terminal(PROGRAM, "--out", self.out, "--", "sh", "-c", "echo $$ > pid; echo up; sleep 300")
        self.expect("up")
        self.hang_up()
        self.wait_gone(int((self.dir / "pid").read_text()))
        self.reap()

    def test_case_35_nohup(self):
        code = "import time; print('up', flush=True); time.sleep(3); open('over', 'w')"
        self.on_terminal("sh", "-c", f"nohup '{PROGRAM}' --out '{self.out}' -- {PYTHON} -c \"{code}\" > log & "
                                     "while ! grep -q up log; do sleep 0.1; done; echo started; sleep 300")
        self.expect("started")
        self.hang_up()
        self.wait_for(lambda: (self.dir / "over").exists(), "end of the job")

    def test_case_34_prompts_are_no_hangs(self):
        env = self.env(TERM="dumb", XPURUN_HANG_TIMEOUT="1")
        self.on_terminal(PROGRAM, "--out", self.out, "--", PYTHON, "-q", env=env)
        self.expect(">>> ")
        time.sleep(3)
        self.type("print(6 * 7)\n")
        self.expect(r"\n42")
        self.type("exit(3)\n")
        self.expect(r"exit\(3\)")
        self.reap()
        self.assertEqual(self.manifest()["stalls"], [])

    def test_case_34_password_prompts_and_window_changes(self):
        code = ("import getpass, signal\nsignal.signal(signal.SIGWINCH, lambda *a: print('winch', flush=True))\n"
                "print('got', getpass.getpass('secret? '))")
        self.on_terminal(PROGRAM, "--out", self.out, "--", PYTHON, "-c", code)
        self.expect(r"secret\? ")
        import fcntl
        import struct
        import termios
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 97, 0, 0))
        self.expect("winch")
        self.type("abc\n")
        self.expect("got abc")
        self.reap()

    def test_case_34_control_c_twice_ends_a_job_that_ignores_it(self):
        code = (
            "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nsignal.signal(signal.SIGTERM,"
            " signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(300)"
        )
        self.on_terminal(PROGRAM, "--out", self.out, "--grace", "1s", "--", PYTHON, "-c", code)
        self.expect("up")
        self.type("\x03")
        time.sleep(0.5)
        self.type("\x03")
        self.expect(r"xpurun: ")
        self.reap(40)


class Signals(attack.Case):
    def test_case_34_a_trap_decides_what_term_means(self):
        process = self.start_xpurun(
            "--", "bash", "-c", "trap 'echo trapped; exit 3' TERM; echo up; while :; do sleep 0.05; done"
        )
        self.assertEqual(process.stdout.readline(), "up\n")
        process.terminate()
        self.assertEqual(process.communicate(timeout=30)[0], "trapped\n")
        self.assertEqual(process.returncode, 3)

    def test_case_35_hup_sent_to_xpurun_reaches_the_job(self):
        process = self.start_xpurun("--", PYTHON, "-c", OnTerminal.HUP)
        self.assertEqual(process.stdout.readline(), "up\n")
        process.send_signal(signal.SIGHUP)
        self.assertEqual(process.wait(timeout=30), 1)
        self.assertTrue((self.dir / "hup").exists())

    def busy(self):
        code = (
            "import time\nprint('up', flush=True)\nend = time.monotonic() + 4\nx = 0\nwhile time.monotonic() < end: x"
            " += 1\nprint('over')"
        )
        process = self.start_xpurun(
            "--hang-timeout", "1", "--", PYTHON, "-c", code, env=self.rank_env(), start_new_session=True
        )
        self.assertEqual(process.stdout.readline(), "up\n")
        self.wait_for(lambda: self.rank_pids(), "rank")
        return process

    def over(self, process):
        out, err = process.communicate(timeout=60)
        self.assertEqual((out, process.returncode), ("over\n", 0), err)
        return err

    def test_case_41_a_stopped_supervisor_raises_no_alarm(self):
        process = self.busy()
        process.send_signal(signal.SIGSTOP)
        time.sleep(2.5)
        process.send_signal(signal.SIGCONT)
        self.assertNotIn("hang", self.over(process))

    def test_case_41_a_stopped_group_raises_no_alarm(self):
        process = self.busy()
        os.killpg(process.pid, signal.SIGSTOP)
        time.sleep(2.5)
        os.killpg(process.pid, signal.SIGCONT)
        self.assertNotIn("hang", self.over(process))

    def test_case_41_a_stopped_rank_is_named_as_stopped(self):
        process = self.busy()
        rank = self.rank_pids()[0]
        os.kill(rank, signal.SIGSTOP)
        self.wait_for(lambda: self.manifest()["stalls"], "stall", 30)
        self.assertEqual(attack.tasks(rank)[0][1], "T", "a dump leaves it as it was")
        os.kill(rank, signal.SIGCONT)
        self.assertIn("stopped", self.over(process))


if __name__ == "__main__":
    attack.main()
