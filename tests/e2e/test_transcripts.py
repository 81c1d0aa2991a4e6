"""What five failures leave on a terminal of 40, 80 and 200 columns, by tmux, against tests/golden/transcripts.

XPURUN_TEST_ACCEPT=1 writes the goldens from what the program prints.
"""

import re
import shlex
import shutil
import socket
import subprocess
import time
import unittest

import golden_files
import xpurun_test
from xpurun_test import PROGRAM, PYTHON, SOURCE

JOB = SOURCE / "tests/e2e/jobs/small_launcher.py"
OPTIONS = {"stopped": ("--hang-timeout", "2", "--on-hang", "kill")}
WIDTHS = (40, 80, 200)
END = "transcript-ends-here"
LIMIT_S = 90


class Terminal:
    """A tmux server with one window, in which one command runs."""

    def __init__(self, directory, columns, command, env):
        self.server = ["tmux", "-f", "/dev/null", "-S", str(directory / "tmux")]
        subprocess.run([*self.server, "new-session", "-d", "-x", str(columns), "-y", "50", "-c", str(directory),
                        f"{command}; echo {END}; sleep 1000"], check=True, env=env)

    def text(self, *options):
        return subprocess.run([*self.server, "capture-pane", "-p", "-S", "-2000", *options], check=True,
                              stdout=subprocess.PIPE, text=True).stdout

    def wait(self):
        end = time.monotonic() + LIMIT_S
        while END not in self.text():
            if time.monotonic() > end:
                raise AssertionError(f"no end within {LIMIT_S} s:\n{self.text()}")
            time.sleep(0.1)

    def close(self):
        subprocess.run([*self.server, "kill-server"], check=False)


def messages(text):
    """The messages of xpurun, each joined to one line again, and the lines they took."""
    joined, lines = [], []
    for line in text.splitlines():
        if line.startswith("xpurun:"):
            joined.append(line)
        elif joined and lines and line.startswith("  ") and lines[-1]:
            joined[-1] += " " + line.strip()
        else:
            lines.append("")
            continue
        lines.append(line)
    return joined, [line for line in lines if line]


def without_details(text):
    """Without what differs from run to run."""
    for pattern, word in ((r"pid \d+", "pid N"), (r"\d\d:\d\d:\d\d(\.\d+)? [A-Z]+", "TIME"),
                          (rf"host {re.escape(socket.gethostname())}", "host H"), (r"\S*/report\.html", "REPORT"),
                          (r"/\S+/dumps/", "RUN/dumps/"), (r"xpurun --logs .*", "xpurun --logs COMMAND"),
                          (re.escape(str(SOURCE)), "SOURCE"),
                          (r"\d+(\.\d+)? s\b", "N s"), (r"using \d+ %", "using N %"),
                          (r"(innermost C function of rank 1:) .*", r"\1 F"), (r"address 0x\w+", "address A"),
                          (r"kill -CONT \d+", "kill -CONT N"),
                          # Whether a rank was sampled before its end, and whether the host has counters.
                          (r"; it (had [^;]* in RAM)?( and )?(was last seen in \S+ \([^)]*\))?", ""),
                          (r"crash: rank 1 was killed by SIGKILL( in \S+ \([^)]*\))? at TIME\nxpurun:   rank",
                           "crash: rank"),
                          (r"xpurun: +the kernel killed .* of the memory control group .*\n", ""),
                          (r"xpurun: +at the last reading before, the control group .*\n", "")):
        text = re.sub(pattern, word, text)
    # Lines of source, which a narrow terminal wraps. Those of a killed rank depend on its last sample.
    text = re.sub(r"(?m)^xpurun: +(> +)?\d+ .*$", lambda line: " ".join(line[0].split()), text)
    return re.sub(r"xpurun: (> )?(38|39|40) .*\n", "", text)


@unittest.skipUnless(shutil.which("tmux"), "no tmux")
class Transcripts(xpurun_test.Case):
    def start(self, fault, columns):
        place = self.dir / f"{fault}-{columns}"
        place.mkdir()
        command = shlex.join([str(PROGRAM), "--poll", "200ms", *OPTIONS.get(fault, ()), "--", PYTHON, str(JOB), fault,
                              str(place)])
        env = self.env(TERM="xterm", LANG="C.UTF-8", XPURUN_DUMP_DEADLINE="3s")
        env.pop("LD_LIBRARY_PATH", None)  # the build's own, with fake vendor libraries for other tests
        terminal = Terminal(place, columns, command, env)
        self.addCleanup(terminal.close)
        return terminal

    def check(self, fault):
        for columns, terminal in [(columns, self.start(fault, columns)) for columns in WIDTHS]:
            with self.subTest(columns=columns):
                terminal.wait()
                text, as_seen = terminal.text("-J"), terminal.text()
                joined, lines = messages(text)
                given = without_details("\n".join(joined) + "\n")
                if not golden_files.ACCEPTS or columns == WIDTHS[-1]:
                    golden_files.expect(self, f"transcripts/{fault}.txt", given, as_seen)
                # xpurun wraps its own lines. Only a path, which people copy, and a word wider than the terminal are
                # left to the terminal.
                for line in lines:
                    has_path = "report.html" in line or "/dumps/" in line or "/cgroup/" in line
                    if not has_path and max(map(len, line.split())) + 2 < columns:
                        self.assertIn(line.rstrip(), as_seen.splitlines())

    def test_stopped(self):
        self.check("stopped")

    def test_exception(self):
        self.check("exception")

    def test_segv(self):
        self.check("segv")

    def test_killed(self):
        self.check("killed")

    def test_exit(self):
        self.check("exit")


if __name__ == "__main__":
    golden_files.main()
