"""The command must not notice xpurun."""

import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import time

import xpurun_test
from xpurun_test import PROGRAM, PYTHON

SHOW_ARGV = "import sys, json; print(json.dumps(sys.argv[1:]))"


class Arguments(xpurun_test.Case):
    def child_argv(self, *args):
        result = self.run_xpurun(*args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_everything_after_the_program_is_its_own(self):
        wild = ["-v", "--lr", "0.1", "--x=--", "--", "y", "--hang-timeout", "3", "", "a  b", "--help", "\n"]
        self.assertEqual(self.child_argv("--", PYTHON, "-c", SHOW_ARGV, *wild), wild)
        self.out = self.dir / "second"
        self.assertEqual(self.child_argv("--hang-timeout", "300", PYTHON, "-c", SHOW_ARGV, *wild), wild)

    def test_argv0_is_as_typed(self):
        result = self.run_xpurun("--", "sh", "-c", "tr '\\0' ' ' < /proc/$$/cmdline")
        self.assertTrue(result.stdout.startswith("sh -c "), result.stdout)


class Surroundings(xpurun_test.Case):
    PROBE = r"""
import json, os, re
status = open("/proc/self/status").read()
print(json.dumps({
    "signals": re.findall(r"^(Sig(?:Blk|Ign|Cgt|Pnd)):\s*(\w+)", status, re.M),
    "fds": sorted(os.listdir("/proc/self/fd"), key=int)[:-1],
    "cwd": os.getcwd(), "umask": re.findall(r"^Umask:\s*(\w+)", status, re.M),
    "pgrp_is_parents": os.getpgrp() == os.getpgid(os.getppid()), "session": os.getsid(0),
    "nice": os.nice(0), "env": {k: v for k, v in os.environ.items() if k not in ("_", "SHLVL")}}))
"""

    def probe(self, argv, env):
        result = subprocess.run([*argv, PYTHON, "-c", self.PROBE], capture_output=True, text=True, cwd=self.dir,
                                env=env, stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_same_signals_descriptors_directory_group_and_environment(self):
        env = self.env(LD_PRELOAD="", SECRET_TOKEN="s3cret")
        with_it = self.probe(self.command("--"), env)
        without = self.probe([], env)
        ours = with_it["env"].pop("LD_PRELOAD")
        self.assertTrue(ours.endswith("/libxpurun_preload.so"), ours)
        with_it["env"].pop("XPURUN_RUN")
        # Timing is on, so NCCL must load the library as its profiler plugin.
        self.assertEqual(with_it["env"].pop("NCCL_PROFILER_PLUGIN"), ours)
        self.assertEqual(with_it["env"].pop("XPURUN_RUN_PROFILER"), "auto:")
        without["env"].pop("LD_PRELOAD")
        caught = dict(with_it.pop("signals"))
        plain = dict(without.pop("signals"))
        # The kernel's view shows the crash handlers of a Python process; the program's own view must not (below).
        caught.pop("SigCgt"), plain.pop("SigCgt")
        self.assertEqual(caught, plain)
        self.assertEqual(with_it, without)
        self.assertNotIn("s3cret", (self.out / "run.json").read_text(), "secrets are masked")

    def test_a_program_without_python_gets_no_handler_and_no_thread(self):
        script = "grep -E '^(SigCgt|SigBlk|SigIgn|Threads)' /proc/self/status"
        with_it = self.run_xpurun("--", "grep", "-E", "^(SigCgt|SigBlk|SigIgn|Threads)", "/proc/self/status")
        without = subprocess.run(["sh", "-c", "exec " + script], capture_output=True, text=True)
        self.assertEqual(with_it.stdout, without.stdout)
        self.assertEqual(with_it.stderr, "")

    def test_python_sees_the_dispositions_it_would_see_alone(self):
        show = "import signal; print([str(signal.getsignal(s)) for s in range(1, 32) if s not in (9, 19)])"
        with_it = self.run_xpurun("--", PYTHON, "-c", show)
        without = subprocess.run([PYTHON, "-c", show], capture_output=True, text=True)
        self.assertEqual(with_it.stdout, without.stdout)

    def test_pipes_and_standard_input(self):
        result = self.run_xpurun("--", "bash", "-c", "tr a-z A-Z | rev", input="abc\n")
        self.assertEqual((result.stdout, result.stderr, result.returncode), ("CBA\n", "", 0))

    def test_in_a_pipeline_sigpipe_still_ends_it(self):
        script = f"'{PROGRAM}' --out '{self.out}' -- yes | head -1; echo ${{PIPESTATUS[0]}}"
        result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=self.dir, env=self.env())
        self.assertEqual(result.stdout, "y\n141\n")

    def test_background_processes_may_outlive_the_command(self):
        start = time.monotonic()
        result = self.run_xpurun("--", "bash", "-c", "sleep 60 >/dev/null 2>&1 & echo $!")
        self.assertLess(time.monotonic() - start, 20)
        self.assertTrue(pathlib.Path(f"/proc/{result.stdout.strip()}").exists(), "as without xpurun")

    def test_ranks_that_outlive_the_command_are_named_and_left_alone(self):
        rank = "RANK={0} LOCAL_RANK={0} WORLD_SIZE=2 python3 -c 'import time; time.sleep(60)' >/dev/null 2>&1 &"
        for status in (0, 3):
            with self.subTest(status=status):
                self.out = self.dir / str(status)
                script = "".join(rank.format(r) for r in (0, 1)) + f"echo $!; sleep 2; exit {status}"
                result = self.run_xpurun("--", "bash", "-c", script)
                self.assertEqual(result.returncode, status)
                sentence = self.verdict()["sentence"]
                self.assertRegex(sentence, r"ranks 0-1 go on \(pid \d+, \d+: \S*python3 -c import time; "
                                           r"time.sleep\(60\)\), and xpurun neither waits for them nor ends them")
                self.assertIn("neither waits for them", " ".join(result.stderr.split()))
                for pid in self.rank_pids().values():
                    self.assertTrue(pathlib.Path(f"/proc/{pid}").exists(), "as without xpurun")
                    os.kill(pid, signal.SIGKILL)


class Unreachable(xpurun_test.Case):
    def test_a_static_program_runs_and_the_reason_is_recorded(self):
        source = self.dir / "hello.c"
        source.write_text('#include <stdio.h>\nint main(void) { puts("hi"); return 6; }\n')
        built = subprocess.run(["g++", "-x", "c", "-static", "-o", self.dir / "hello", source], capture_output=True)
        if built.returncode != 0:
            self.skipTest("cannot link statically here")
        result = self.run_xpurun("--", "./hello")
        self.assertEqual((result.stdout, result.returncode), ("hi\n", 6))
        self.assertIn("static", self.manifest()["preload"]["reason"])

    def test_switched_off(self):
        result = self.run_xpurun("--no-preload", "--", "sh", "-c", "echo $LD_PRELOAD")
        self.assertEqual(result.stdout, "\n")
        self.assertIn("--no-preload", self.manifest()["preload"]["reason"])


class Terminal(xpurun_test.Case):
    """Job control in an interactive shell on a terminal of its own."""

    def setUp(self):
        super().setUp()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(self.dir)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], self.env(PS1="PROMPT> ", TERM="dumb"))
        self.text = ""
        self.addCleanup(self.hang_up)

    def hang_up(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)

    def expect(self, pattern, seconds=20):
        end = time.monotonic() + seconds
        while not (match := re.search(pattern, self.text)):
            ready = select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]
            if not ready:
                self.fail(f"{pattern!r} did not appear; screen:\n{self.text}")
            self.text += os.read(self.fd, 65536).decode(errors="replace")
        self.text = self.text[match.end():]
        return match

    def type(self, text):
        os.write(self.fd, text.encode())

    def test_control_c(self):
        # No shell: dash forgets an interrupt that comes just before its exec.
        code = 'import time; print("up", flush=True); [time.sleep(0.05) for _ in iter(int, 1)]'
        self.type(f"'{PROGRAM}' --out run -- {PYTHON} -c '{code}'\n")
        self.expect(r"\nup")
        self.type("\x03")
        self.expect("PROMPT> ")
        self.type("echo status=$?\n")
        self.expect("status=130")

    def test_control_z_and_fg(self):
        self.type(f"'{PROGRAM}' --out run -- sh -c 'echo up; sleep 2; echo over'\n")
        self.expect(r"\nup")
        self.type("\x1a")
        self.expect("Stopped")
        self.type("echo still here; fg\n")
        self.expect(r"\nstill here")
        self.expect(r"\nover")

    def elapsed_s(self):
        """By the clock of the supervisor, which polls the ranks in the same loop."""
        told = self.run_xpurun("ctl", "--run", self.dir / "run", "status", "--json", out=False)
        return json.loads(told.stdout)["elapsed_s"] if told.returncode == 0 else 0

    def test_python_asks_at_the_terminal(self):
        self.type(f"'{PROGRAM}' --out run --hang-timeout 1 -- {PYTHON} -c 'print(\"got\", input(\"name? \"))'\n")
        self.expect(r"name\? ")
        begun = self.wait_for(self.elapsed_s, "answer of the supervisor")
        self.wait_for(lambda: self.elapsed_s() > begun + 2.5, "hang timeout")  # an unanswered prompt is not a hang
        self.type("x\n")
        self.expect(r"got x")
        self.assertNotIn("hang", self.text)


if __name__ == "__main__":
    xpurun_test.main()
