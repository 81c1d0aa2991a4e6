"""Completion in the real shells: bash with its completion package, zsh and fish on a terminal of their own."""

import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import time

import xpurun_test
from xpurun_test import PROGRAM

BASH_COMPLETION = pathlib.Path("/usr/share/bash-completion/bash_completion")


class Completions(xpurun_test.Case):
    def setUp(self):
        super().setUp()
        (self.dir / "subdir").mkdir()
        run = self.dir / "xpurun-runs" / "20261123T100000Z-train-ab12"
        run.mkdir(parents=True)
        (run / "run.json").write_text("{}")
        (self.dir / "xpurun-runs" / "latest").symlink_to(run.name)
        self.bin = self.dir / "bin"
        self.bin.mkdir()
        (self.bin / "xpurun").symlink_to(os.path.abspath(PROGRAM))
        (self.bin / "xprogram").write_text("#!/bin/sh\n")
        (self.bin / "xprogram").chmod(0o755)

    def shell_env(self):
        return {**os.environ, "HOME": str(self.dir), "XDG_CONFIG_HOME": str(self.dir), "TERM": "dumb",
                "PATH": f"{self.bin}:{os.environ['PATH']}"}

    def script(self, shell):
        path = self.dir / f"completion.{shell}"
        path.write_bytes(subprocess.run([PROGRAM, "completions", shell], check=True, capture_output=True).stdout)
        return path

    def python_process(self):
        """The id of a Python process and of one that is none."""
        for command in ([sys.executable, "-c", "import time; time.sleep(1000)"], ["sleep", "1000"]):
            self.started.append(subprocess.Popen(command, env=self.env()))
        return [process.pid for process in self.started]

    def test_bash_with_its_package(self):
        if not BASH_COMPLETION.exists():
            self.skipTest("bash-completion is not installed")
        text = f"""
            source {BASH_COMPLETION}
            source {self.script("bash")}
            complete -W 'slow speed' xprogram
            COMP_LINE=$1; COMP_POINT=${{#1}}
            eval "COMP_WORDS=($1)"; [[ $1 == *' ' ]] && COMP_WORDS+=("")
            COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
            _xpurun xpurun "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD - 1]}}" 2>&1
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """

        def offered(line):
            result = subprocess.run(["bash", "--norc", "-c", text, "bash", line], env=self.shell_env(), cwd=self.dir,
                                    capture_output=True, text=True, timeout=30)
            self.assertEqual(result.stderr, "")
            return set(result.stdout.split())

        self.assertEqual(offered("xpurun --gr"), {"--grace"})
        self.assertEqual(offered("xpurun -- xprogram sp"), {"speed"})
        self.assertEqual(offered("xpurun run --name a xprogram s"), {"slow", "speed"})
        self.assertEqual(offered("xpurun doctor --json -- xprogram sp"), {"speed"})
        self.assertEqual(offered("xpurun doctor --js"), {"--json"})
        self.assertIn("xprogram", offered("xpurun xprog"))
        self.assertIn("doctor", offered("xpurun doc"))
        self.assertEqual(offered("xpurun runs pr"), {"prune"})
        self.assertEqual(offered("xpurun runs "), {"list", "show", "prune"})
        self.assertEqual(offered("xpurun runs show --json su"), {"subdir"})
        self.assertEqual(offered("xpurun report 2"), {"20261123T100000Z-train-ab12"})
        self.assertEqual(offered("xpurun ctl --run la"), {"latest"})
        self.assertEqual(offered("xpurun ctl timing "), {"off", "light", "full"})
        self.assertEqual(offered("xpurun ctl dump "), set())
        self.assertEqual(offered("xpurun --hang-timeout "), {"off", "300s"})
        # A shell without "=" in COMP_WORDBREAKS, and one with it.
        self.assertEqual(offered("xpurun --hang-timeout=o"), {"--hang-timeout=off"})
        self.assertEqual(offered("xpurun --hang-timeout = o"), {"off"})
        self.assertEqual(offered("xpurun --out=su"), {"--out=subdir"})
        self.assertEqual(offered("xpurun --out = su"), {"subdir"})
        self.assertEqual(offered("xpurun top --interval 2 su"), {"subdir"})
        python, other = map(str, self.python_process())
        for line in ("stacks --pid ", "stacks -p ", "record --pid ", "attach ", "attach 1 "):
            self.assertIn(python, offered(f"xpurun {line}"))
            self.assertNotIn(other, offered(f"xpurun {line}"))
        self.assertIn(python, offered(f"xpurun stacks --pid {python[:-1]}"))
        self.assertEqual(offered("xpurun stacks --pid x"), set())

    def test_zsh(self):
        if shutil.which("zsh") is None:
            self.skipTest("zsh is not installed")
        # The shell loads the script as if installed: by the name of its function, from fpath.
        functions = self.dir / "functions"
        functions.mkdir()
        shutil.copy(self.script("zsh"), functions / "_xpurun")
        (functions / "_xprogram").write_text("#compdef xprogram\n_values word slow speed\n")
        pid, master = pty.fork()
        if pid == 0:
            os.chdir(self.dir)
            os.execvpe("zsh", ["zsh", "-f", "-i"], self.shell_env())
        self.addCleanup(lambda: (os.kill(pid, 9), os.waitpid(pid, 0), os.close(master)))

        def read_until(mark, seconds=20):
            end, text = time.monotonic() + seconds, ""
            while mark not in text and time.monotonic() < end:
                if select.select([master], [], [], 0.1)[0]:
                    text += os.read(master, 65536).decode(errors="replace")
            self.assertIn(mark, text)
            return text

        os.write(master, f"PS1='> '; unsetopt list_ambiguous; "
                         f"fpath=({functions} $fpath); autoload -Uz compinit; compinit -u -D; "
                         "echo rea''dy\r".encode())
        read_until("ready")

        def completed(line):
            """The line that the shell would run after Tab and Return."""
            os.write(master, line.encode() + b"\t")
            time.sleep(0.4)
            os.write(master, b"\x01print -r -- \"<\" '\x05' \">\"; echo do''ne\r")
            text = read_until("done")
            return re.search(r"^< (.*?)\s*>", text.replace("\r", ""), re.M)[1]

        self.assertEqual(completed("xpurun --gra"), "xpurun --grace")
        self.assertEqual(completed("xpurun doctor --js"), "xpurun doctor --json")
        self.assertEqual(completed("xpurun runs pru"), "xpurun runs prune")
        self.assertEqual(completed("xpurun ctl timing li"), "xpurun ctl timing light")
        self.assertEqual(completed("xpurun --hang-timeout=of"), "xpurun --hang-timeout=off")
        self.assertEqual(completed("xpurun --out=sub"), "xpurun --out=subdir")
        self.assertEqual(completed("xpurun report 2026"), "xpurun report 20261123T100000Z-train-ab12")
        self.assertEqual(completed("xpurun -- xprogram sp"), "xpurun -- xprogram speed")
        self.assertEqual(completed("xpurun run --name a xprogram sp"), "xpurun run --name a xprogram speed")
        self.assertEqual(completed("xpurun doctor -- xprogram sp"), "xpurun doctor -- xprogram speed")
        python, other = map(str, self.python_process())
        self.assertEqual(completed(f"xpurun stacks --pid {python}"), f"xpurun stacks --pid {python}")
        os.write(master, b"xpurun stacks --pid \t")
        self.assertNotRegex(read_until(python), rf"\b{other}\b")
        os.write(master, b"\x15")

    def test_fish(self):
        if shutil.which("fish") is None:
            self.skipTest("fish is not installed")
        script = self.script("fish")

        def offered(line):
            command = f"source {script}; complete -c xprogram -f -a 'slow speed'; complete -C '{line}'"
            result = subprocess.run(["fish", "--no-config", "-c", command], env=self.shell_env(), cwd=self.dir,
                                    capture_output=True, text=True, timeout=60)
            self.assertEqual(result.stderr, "")
            return {entry.split("\t")[0] for entry in result.stdout.splitlines()}

        self.assertEqual(offered("xpurun doctor --js"), {"--json"})
        self.assertEqual(offered("xpurun runs pr"), {"prune"})
        self.assertEqual(offered("xpurun ctl timing "), {"off", "light", "full"})
        self.assertEqual(offered("xpurun ctl dump "), set())
        self.assertEqual(offered("xpurun --hang-timeout=o"), {"--hang-timeout=off"})
        self.assertEqual(offered("xpurun --out=su"), {"--out=subdir/"})
        self.assertEqual(offered("xpurun report 2"), {"20261123T100000Z-train-ab12"})
        self.assertEqual(offered("xpurun -- xprogram sp"), {"speed"})
        self.assertEqual(offered("xpurun doctor -- xprogram sp"), {"speed"})
        self.assertEqual(offered("xpurun top --interval 2 su"), {"subdir/"})
        self.assertIn("doctor", offered("xpurun doc"))
        python, other = map(str, self.python_process())
        for line in ("stacks --pid ", "attach "):
            self.assertIn(python, offered(f"xpurun {line}"))
            self.assertNotIn(other, offered(f"xpurun {line}"))


if __name__ == "__main__":
    sys.exit(xpurun_test.main())
