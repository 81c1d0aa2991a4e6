"""Cases 32, 33, 65: much output, readers that are slow or die, odd lines behind --prefix."""

import hashlib
import os
import subprocess

import attack
import lane
from attack import HANG, PROGRAM, PYTHON


class MuchOutput(attack.Case):
    def checksum(self, argv, **kwargs):
        process = self.start(*argv, text=False, **kwargs)
        digest = hashlib.sha256()
        while block := process.stdout.read(1 << 20):
            digest.update(block)
        self.assertEqual(process.wait(timeout=60), 0)
        return digest.hexdigest()

    def compare(self, blocks):
        code = ("import sys, random\nr = random.Random(1)\nbase = r.randbytes(1 << 20)\n"
                f"for i in range({blocks}): sys.stdout.buffer.write(base[i % 97:] + bytes([i % 256]))")
        bare = self.checksum([PYTHON, "-c", code])
        env = self.rank_env()
        self.assertEqual(self.checksum(self.command("--", PYTHON, "-c", code), env=env), bare)
        self.assertEqual(
            self.checksum([PROGRAM, "--out", self.dir / "logs", "--logs", "--", PYTHON, "-c", code], env=env), bare
        )

    def test_case_32_many_bytes_arrive_as_they_were(self):
        self.compare(64)

    @lane.long
    def test_case_32_a_gigabyte(self):
        self.compare(1024)

    def test_case_32_a_slow_reader_of_logs_does_not_slow_the_job(self):
        code = "import sys\nfor i in range(4000): print('y' * 999)\nprint('over', file=sys.stderr)"
        process = self.start(
            *self.command("--logs", "--", PYTHON, "-c", code), env=self.rank_env(), stderr=subprocess.DEVNULL
        )
        # No reader. The rank must still come to its end.
        self.wait_for(lambda: self.log("stderr").endswith("over\n"), "end of the rank", 30)
        self.assertEqual(len(process.stdout.read()), 4000 * 1000)
        self.assertEqual(process.wait(timeout=30), 0)

    def log(self, name):
        try:
            return (self.out / f"ranks/0/{name}.log").read_text()
        except OSError:
            return ""


class DeadReader(attack.Case):
    """D2: output without a reader ends neither the supervisor nor the job."""

    def test_case_33_the_reader_of_stderr_is_dead(self):
        read, write = os.pipe()
        os.close(read)
        process = self.start(*self.command("--hang-timeout", "1", "--", PYTHON, "-c", HANG, "4"), env=self.rank_env(),
                             stderr=write)
        os.close(write)
        out, _ = process.communicate(timeout=60)
        self.assertEqual((out, process.returncode), ("job done\n", 0))
        self.assertEqual(self.manifest()["outcome"], "exit")
        self.assertTrue(self.manifest()["stalls"])

    def test_case_33_a_kill_is_carried_out_though_nobody_reads(self):
        read, write = os.pipe()
        os.close(read)
        process = self.start(
            *self.command("--hang-timeout", "1", "--on-hang", "kill", "--grace", "1s", "--", PYTHON, "-c", HANG, "100"),
            env=self.rank_env(),
            stderr=write,
        )
        os.close(write)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 124)
        self.assertEqual(list(self.strays()), [])

    def test_case_33_the_reader_of_logs_is_dead(self):
        code = "import time\nfor i in range(60): print(i, flush=True); time.sleep(0.02)\nopen('done', 'w')"
        script = f"'{PROGRAM}' --out '{self.out}' --logs -- {PYTHON} -c \"$CODE\" | head -1; exit ${{PIPESTATUS[0]}}"
        result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=self.dir, timeout=60,
                                env=self.rank_env(CODE=code))
        self.assertEqual(result.stdout, "0\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue((self.dir / "done").exists())
        self.assertEqual((self.out / "ranks/0/stdout.log").read_text().split(), [str(i) for i in range(60)])

    def test_case_33_the_job_itself_dies_of_sigpipe_as_without_us(self):
        script = f"'{PROGRAM}' --out '{self.out}' -- yes | head -1; echo ${{PIPESTATUS[0]}}"
        result = subprocess.run(
            ["bash", "-c", script], capture_output=True, text=True, cwd=self.dir, env=self.env(), timeout=30
        )
        self.assertEqual(result.stdout, "y\n141\n")


class Prefix(attack.Case):
    def prefixed(self, code):
        result = subprocess.run(self.command("--prefix", "--", PYTHON, "-c", code), capture_output=True, cwd=self.dir,
                                env=self.rank_env(), timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_case_65_binary_carriage_returns_and_long_lines(self):
        out = self.prefixed(
            "import sys\nsys.stdout.buffer.write(b'\\x00\\xff\\n10%\\r20%\\r\\n' + b'z' * 300000 + b'\\nend\\n')"
        )
        self.assertEqual(out.count(b"z"), 300000)
        self.assertIn(b"\x00\xff\n", out)
        self.assertTrue(out.endswith(b"end\n"), out[-50:])

    def test_case_65_output_without_a_last_newline(self):
        """Two ranks end without a newline: the prefix of each is at the beginning of a separate line."""
        code = (
            "import os, subprocess, sys\ndef rank(n):\n    subprocess.run([sys.executable, '-c', 'import sys;"
            " sys.stdout.write(\"end of %s\")' % n], env={**os.environ, 'RANK': n, 'LOCAL_RANK':"
            " n})\nrank('0')\nrank('1')"
        )
        result = subprocess.run(self.command("--prefix", "--", PYTHON, "-c", code), capture_output=True, text=True,
                                cwd=self.dir, env=self.env(WORLD_SIZE="2"), timeout=60)
        self.assertEqual(sorted(result.stdout.splitlines()), ["[0] end of 0", "[1] end of 1"], result.stderr)


if __name__ == "__main__":
    attack.main()
