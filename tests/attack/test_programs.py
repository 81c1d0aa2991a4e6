"""Cases 23 to 27, 30, 31, 37 to 40, 59 to 61: programs of every kind, and unusual or deleted installations."""

import os
import pathlib
import shutil
import signal
import subprocess
import time

import attack
import lane
import program_copy
from attack import HANG, PROGRAM, PYTHON

HELLO = '#include <stdio.h>\nint main(void) { puts("hi"); return 6; }\n'
CRASH = (
    '#include <signal.h>\n#include <unistd.h>\nint main(void) { usleep(200000); int *p = 0; return *(volatile int'
    ' *)p; }\n'
)


class Installed(attack.Case):
    """An installed copy of the program at a path chosen by the test."""

    def install(self, prefix):
        build = pathlib.Path(os.environ["XPURUN_TEST_BUILD"])
        for source, place in (
            (PROGRAM, "bin/xpurun"),
            (build / "stackdump/xpurun-stackdump", "libexec/xpurun/xpurun-stackdump"),
            (build / "preload/libxpurun_preload.so", "lib/xpurun/libxpurun_preload.so"),
        ):
            (prefix / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, prefix / place)
        program_copy.copy_library(PROGRAM, prefix)
        return prefix / "bin/xpurun"

    def test_case_60_a_prefix_with_a_space(self):
        program = self.install(self.dir / "a b")
        result = subprocess.run(
            [program, "--out", self.out, "--", PYTHON, "-c", "print('hi')"],
            capture_output=True,
            text=True,
            cwd=self.dir,
            env=self.rank_env(),
            timeout=60,
        )
        self.assertEqual((result.stdout, result.returncode), ("hi\n", 0), result.stderr)
        self.assertNotIn("ld.so", result.stderr)
        # Either the library was loaded, or one line of xpurun names the loss.
        preload = self.manifest()["preload"]
        if preload["reason"]:
            self.assertIn("space", result.stderr + preload["reason"])
        else:
            self.assertTrue(any(p["preload"] for p in self.manifest()["processes"] if p["python"]), preload)

    def test_case_61_the_installation_is_deleted_during_the_run(self):
        program = self.install(self.dir / "gone")
        process = self.start(program, "--out", self.out, "--hang-timeout", "2", "--", PYTHON, "-c", HANG, "6",
                             env=self.rank_env())
        self.wait_for(lambda: (self.out / "run.json").exists(), "run.json")
        self.wait_for(lambda: self.rank_pids(), "rank")
        shutil.rmtree(self.dir / "gone")
        out, err = process.communicate(timeout=60)
        self.assertEqual((out, process.returncode), ("job done\n", 0), err)
        self.assert_told(err, "rank 0")

    def test_case_60_hostile_and_long_names_of_run_directories(self):
        names = ["\x1b[31mred", "x\u202ey", "n\nl"]
        for name in names + (["a b", "l" * 200, "-dash", "'quote\""] if lane.LONG else []):
            with self.subTest(name=name[:10]):
                runs = self.dir / name
                result = self.run_hang(
                    [PROGRAM, f"--runs-dir={runs}", "--hang-timeout", "1", "--", PYTHON, "-c", HANG, "12"]
                )
                self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
                self.assertTrue((self.only_run(runs) / "run.json").exists())
                self.assertNotIn("\x1b", result.stderr)
                self.assertNotIn("\u202e", result.stderr)


class Programs(attack.Case):
    def test_case_23_a_child_closes_all_descriptors(self):
        code = "import os, subprocess, sys\nos.closerange(0, 1000)\nos._exit(subprocess.call(['true']) + 5)"
        for more in ([], ["--logs"]):
            with self.subTest(options=more):
                result = self.run_xpurun(
                    "--out",
                    self.dir / ("r" + "".join(more)),
                    *more,
                    "--",
                    PYTHON,
                    "-c",
                    code,
                    out=False,
                    env=self.rank_env(),
                )
                self.assertEqual((result.returncode, result.stdout), (5, ""), result.stderr)

    def test_case_24_daemons_are_not_waited_for(self):
        code = ("import os, sys, time\nif os.fork(): os._exit(4)\nos.setsid()\nif os.fork(): os._exit(0)\n"
                "null = os.open('/dev/null', os.O_RDWR)\nfor n in range(3): os.dup2(null, n)\n"
                "open('daemon', 'w').write(str(os.getpid()))\ntime.sleep(60)")
        for more in ([], ["--logs"]):
            with self.subTest(options=more):
                start = time.monotonic()
                result = self.run_xpurun(
                    "--out", self.dir / ("r" + "".join(more)), *more, "--", PYTHON, "-c", code, out=False
                )
                self.assertEqual(result.returncode, 4, result.stderr)
                self.assertLess(time.monotonic() - start, 30)
                pid = int(
                    self.wait_for(
                        lambda: (self.dir / "daemon").exists() and (self.dir / "daemon").read_text(), "daemon"
                    )
                )
                self.assertTrue(attack.alive(pid), "as without xpurun")
                (self.dir / "daemon").unlink()

    def runs(self, program, *options, status=6, text="hi\n", env=None):
        result = self.run_xpurun(*options, "--", program, env=env)
        self.assertEqual((result.stdout, result.returncode), (text, status), result.stderr)
        return result

    def test_case_25_static_glibc(self):
        self.runs(self.compile(HELLO, "-static"))

    def test_case_25_static_musl(self):
        if not shutil.which("musl-gcc"):
            self.skipTest("needs musl-tools")
        self.runs(self.compile(HELLO, "-static", compiler="musl-gcc"))

    def test_case_26_dynamic_musl(self):
        """D7: the library needs another libc; the program must start without the library, with a message."""
        if not shutil.which("musl-gcc"):
            self.skipTest("needs musl-tools")
        self.runs(self.compile(HELLO, compiler="musl-gcc"))
        self.assertIn("musl", self.manifest()["preload"]["reason"])

    def test_case_26_a_program_with_another_dynamic_linker(self):
        """The same without musl: a dynamic linker of another name, here a copy of the system's."""
        own = next(iter(pathlib.Path("/lib64").glob("ld-linux-x86-64.so.2")), None)
        if own is None:
            self.skipTest("x86-64 only")
        loader = self.dir / "ld-musl-x86_64.so.1"
        shutil.copy(own.resolve(), loader)
        self.runs(self.compile(HELLO, f"-Wl,--dynamic-linker,{loader}"))
        self.assertTrue(self.manifest()["preload"]["reason"])

    def test_case_27_32_bit(self):
        self.runs(self.compile(HELLO, "-m32", "-static"))

    def test_case_39_asan(self):
        """D7: a program with AddressSanitizer starts, and one line names the loss."""
        program = self.compile(HELLO, "-fsanitize=address")
        if subprocess.run([program], capture_output=True).returncode != 6:
            self.skipTest("AddressSanitizer does not run here")
        result = self.runs(program)
        self.assertNotIn("ASan runtime does not come first", result.stderr)

    def test_case_39_asan_preloaded_by_the_user(self):
        found = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
        library = os.path.realpath(found)
        if not os.path.isabs(found) or subprocess.run(["true"], env={"LD_PRELOAD": library}).returncode != 0:
            self.skipTest("no libasan here")
        result = self.runs(self.compile(HELLO), env=self.env(LD_PRELOAD=library))
        self.assertNotIn("ASan runtime does not come first", result.stderr)

    def test_case_38_other_preloaded_libraries(self):
        library = self.compile("int unused;\n", "-shared", "-fPIC", name="other.so")
        result = self.hang(12, env=self.rank_env(LD_PRELOAD=str(library)))
        self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
        self.assertIn("stuck", self.first_stall()["where"]["function"])

    def test_case_38_tsan(self):
        program = self.compile(HELLO, "-fsanitize=thread")
        if subprocess.run([program], capture_output=True).returncode != 6:
            self.skipTest("ThreadSanitizer does not run here")
        self.runs(program)

    @lane.long
    def test_case_30_other_pythons(self):
        root = pathlib.Path.home() / ".pyenv/versions"
        found = [p for v in ("2.7", "3.6", "3.7", "pypy") for p in root.glob(f"{v}*/bin/python")]
        if not found:
            self.skipTest("no other Python here")
        for python in found:
            with self.subTest(python=python.parts[-3]):
                out = self.dir / python.parts[-3]
                result = self.run_xpurun(
                    "--out",
                    out,
                    "--hang-timeout",
                    "1",
                    "--",
                    python,
                    "-c",
                    "import time; time.sleep(2.5); print('job done')",
                    out=False,
                    env=self.rank_env(),
                )
                self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
                target = self.start(python, "-c", "import sys, time; print('up'); sys.stdout.flush(); time.sleep(100)")
                target.stdout.readline()
                self.assertEqual(self.stacks("--pid", target.pid).returncode, 0)
                self.assertEqual(attack.stopped(target.pid), [])

    def many(self, count):
        script = f"i=0; while [ $i -lt {count} ]; do /bin/true; i=$((i+1)); done; echo over"
        start = time.monotonic()
        self.assertEqual(subprocess.run(["sh", "-c", script], capture_output=True, timeout=120).returncode, 0)
        bare = time.monotonic() - start
        start = time.monotonic()
        result = self.run_xpurun("--", "sh", "-c", script, timeout=120)
        self.assertEqual((result.stdout, result.returncode), ("over\n", 0), result.stderr)
        self.assertLess(time.monotonic() - start, 4 * bare + 5)

    def test_case_31_many_short_processes(self):
        self.many(300)

    @lane.long
    def test_case_31_2000_short_processes_and_1500_at_once(self):
        self.many(2000)
        script = "for i in $(seq 1500); do sleep 3 & done; wait; echo over"
        result = self.run_xpurun("--out", self.dir / "second", "--", "sh", "-c", script, out=False, timeout=180)
        self.assertEqual((result.stdout, result.returncode), ("over\n", 0), result.stderr)

    def test_case_37_nested(self):
        result = self.run_hang(
            self.command(
                "--", PROGRAM, "--out", self.dir / "inner", "--hang-timeout", "1", "--", PYTHON, "-c", HANG, "12"
            )
        )
        self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
        self.assertTrue((self.dir / "inner/verdict.json").exists())

    def test_case_40_a_clock_that_runs_100_times_as_fast(self):
        library = next(iter(pathlib.Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)
        if library is None:
            self.skipTest("needs faketime")
        result = self.run_xpurun(
            "--hang-timeout",
            "60",
            "--",
            PYTHON,
            "-c",
            "import time; time.sleep(1); print('over')",
            env=self.rank_env(LD_PRELOAD=str(library), FAKETIME="+0 x100"),
        )
        self.assertEqual((result.stdout, result.returncode), ("over\n", 0), result.stderr)
        self.assertNotIn("hang", result.stderr)

    def test_case_59_extreme_arguments_and_environments(self):
        show = [
            PYTHON,
            "-S",
            "-c",
            "import os, sys; print(len(sys.argv[1].encode('utf-8', 'surrogateescape')), len(os.environ))",
        ]
        for name, word, env in (
            ("long", "a" * 120_000, self.env()),
            ("many", "x", {**self.env(), **{f"V{i}": "v" for i in range(10_000)}}),
            ("empty", "x", {}),
            ("bytes", b"\xff\xfe\x80", {**self.env(), "ODD": os.fsdecode(b"\xff")}),
        ):
            with self.subTest(case=name):
                bare = subprocess.run([*show, word], capture_output=True, env=env, timeout=30)
                result = subprocess.run([PROGRAM, "--out", self.dir / name, "--no-preload", "--", *show, word],
                                        capture_output=True, env=env, timeout=60, cwd=self.dir)
                self.assertEqual((result.stdout, result.returncode), (bare.stdout, bare.returncode), result.stderr)


class Crashes(attack.Case):
    """Cases 28, 29, 63."""

    def test_case_28_a_program_in_c_that_crashes(self):
        program = self.compile(CRASH)
        for name, env in (
            ("rank", self.rank_env()),
            ("RANK alone", self.env(RANK="0", WORLD_SIZE="1")),
            ("none", self.env()),
        ):
            with self.subTest(variables=name):
                out = self.dir / name.replace(" ", "-")
                result = self.run_xpurun("--out", out, "--", program, out=False, env=env)
                self.assertEqual(result.returncode, 128 + signal.SIGSEGV, result.stderr)
                self.assertIn("SIGSEGV", result.stderr)
                # The next step is printed only if its files exist.
                if "stack of the crashed thread" in result.stderr:
                    self.assertTrue(list(out.glob("dumps/*/*.stacks.json")), result.stderr)
                self.assertNotIn("poll_schedule_timeout", result.stderr)
                self.assertNotIn("for 0.0 s, using", result.stderr)

    def test_case_25_a_static_program_that_crashes(self):
        program = self.compile(CRASH, "-static")
        result = self.run_xpurun("--", program, env=self.rank_env())
        self.assertEqual(result.returncode, 128 + signal.SIGSEGV, result.stderr)
        self.assertNotIn("stack of the crashed thread", result.stderr)

    def test_case_29_stack_overflow_in_c_below_python(self):
        library = self.compile(
            "__attribute__((noinline)) int deep(int n) { volatile char a[512]; a[n % 512] = 1; "
            "return n < 0 ? 0 : deep(n + 1) + a[n % 512]; }\n",
            "-shared",
            "-fPIC",
            "-O0",
            name="deep.so",
        )
        code = f"import ctypes\ndef overflow():\n    ctypes.CDLL('{library}').deep(1)\noverflow()"
        result = self.run_xpurun("--", PYTHON, "-c", code, env=self.rank_env())
        self.assertEqual(result.returncode, 128 + signal.SIGSEGV, result.stderr)
        self.assertIn("SIGSEGV", result.stderr)
        self.assertEqual(self.verdict()["ranks"], [0])

    def test_case_63_the_supervisor_is_stopped_while_a_rank_crashes(self):
        code = "import os, sys\nprint('up', flush=True)\nsys.stdin.readline()\nos.abort()"
        process = self.start_xpurun(
            "--crash-wait", "1s", "--", PYTHON, "-c", code, env=self.rank_env(), stdin=subprocess.PIPE
        )
        self.assertEqual(process.stdout.readline(), "up\n")
        rank = self.wait_for(lambda: self.rank_pids().get(0), "rank")
        process.send_signal(signal.SIGSTOP)
        process.stdin.write("\n")
        process.stdin.flush()
        try:
            self.wait_for(lambda: not attack.alive(rank), "death of the rank", 20)
        finally:
            process.send_signal(signal.SIGCONT)
        process.stdin.close()
        self.assertEqual(process.wait(timeout=30), 128 + signal.SIGABRT)

    def test_case_63_the_supervisor_is_killed_while_a_rank_crashes(self):
        code = "import os, sys\nprint('up', flush=True)\nsys.stdin.readline()\nos.abort()"
        process = self.start_xpurun("--", PYTHON, "-c", code, env=self.rank_env(), stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), "up\n")
        rank = self.wait_for(lambda: self.rank_pids().get(0), "rank")
        process.stdin.write("\n")
        process.stdin.flush()
        process.kill()
        self.wait_for(lambda: not attack.alive(rank), "death of the rank", 20)


if __name__ == "__main__":
    attack.main()
