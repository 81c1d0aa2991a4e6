"""xpurun stacks --core: core files of real processes, written by gcore and by the kernel."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import unittest

from stackdump_live import ANY_PYTHON, STACKDUMP, Dump, Program, Target, names, need, on_every_python, python_frames

import stack_files

PROGRAM = os.environ["XPURUN_PROGRAM"]
VICTIM = os.path.join(os.environ["XPURUN_TEST_SOURCE"], "tests/e2e/victims/unwind.cpp")

CODE = """
import threading, time

def held():
    try:
        raise KeyError("label")
    except KeyError:
        time.sleep(1000)

def inner(n, text="some text"):
    if n == 0:
        print("ready", flush=True)
        time.sleep(1000)
    inner(n - 1)

threading.Thread(target=held, name="ein Fädchen", daemon=True).start()
list(map(inner, [3]))
"""

# Facts that only a live process has.
LIVE_ONLY = ("comm", "state", "cpu_ms", "wchan", "syscall", "syscall_file")


def gcore(pid, folder):
    need("gcore")
    done = subprocess.run(["gcore", "-o", f"{folder}/core", str(pid)], capture_output=True, text=True, timeout=60)
    path = f"{folder}/core.{pid}"
    if not os.path.exists(path):
        raise unittest.SkipTest(f"gcore cannot write a core file here: {done.stderr.strip()[-200:]}")
    return path


def kernel_core(command, folder, **more):
    """The core file of a command that dies, where the kernel writes core files into the working directory."""
    with open("/proc/sys/kernel/core_pattern") as f:
        pattern = f.read().strip()
    if pattern not in ("core", "core.%p"):
        raise unittest.SkipTest(f"the kernel does not write core files into the working directory ({pattern})")
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
        raise unittest.SkipTest("the limit of core files is fixed (ulimit -Hc)")

    def allow():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    done = subprocess.run(command, cwd=folder, preexec_fn=allow, capture_output=True, text=True, timeout=60, **more)
    found = [n for n in os.listdir(folder) if re.fullmatch(r"core(\.\d+)?", n)]
    if not found:
        raise unittest.SkipTest(f"the kernel wrote no core file (status {done.returncode})")
    return os.path.join(folder, found[0]), done


def xpurun(*args):
    return subprocess.run([PROGRAM, "stacks", *map(str, args)], capture_output=True, text=True, timeout=120)


class Cores(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="xpurun-core-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def stacks(self, core, *extra):
        out = os.path.join(self.folder, "x.stacks.json")
        done = subprocess.run([STACKDUMP, "--from-core", core, "--out", out, *extra], capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return stack_files.read(out)

    def same_threads(self, from_core, live):
        """Every thread with every frame, down to address and column."""
        def bare(threads):
            out = [{k: v for k, v in t.items() if k not in LIVE_ONLY} for t in threads]
            return sorted(out, key=lambda t: t["tid"])
        self.assertEqual(bare(from_core["threads"]), bare(live["threads"]))

    @on_every_python
    def test_the_same_stacks_as_the_live_process(self, version, path):
        with Target(CODE, python=path) as t:
            live = Dump(t.pid, "--locals").json
            core = gcore(t.pid, self.folder)
            os.utime(t.script, (1, 1))
            again = self.stacks(core, "--locals")
            os.utime(t.script)
            changed = self.stacks(core)
        self.same_threads(again, live)
        self.assertEqual(again["pid"], live["pid"])
        self.assertEqual(again["cmdline"], live["cmdline"])
        self.assertEqual(again["python_version"], live["python_version"])
        self.assertEqual(again["interpreters"], live["interpreters"])
        self.assertEqual(again["method"], "core")
        self.assertEqual(again["status"], "ok")
        self.assertNotIn("fatal_signal", again)
        self.assertNotIn("notes", again)
        main = next(t for t in again["threads"] if t["main"])
        self.assertEqual([f["func"] for f in python_frames(main)].count("inner"), 4)
        held = next(t for t in again["threads"] if t.get("python_name") == "ein Fädchen")
        self.assertEqual(held["handling"]["type"], "KeyError")
        # A script that was changed later does not say what was called.
        self.assertEqual(python_frames(main)[0].get("callee"), "time.sleep")
        self.assertIsNone(python_frames(changed["threads"][0])[0].get("callee"))
        os.unlink(core)

    def test_a_cpp_program(self):
        need("g++")
        program = os.path.join(self.folder, "program")
        subprocess.run(["g++", "-std=c++20", "-w", "-O2", "-pthread", "-Wl,--build-id", "-o", program, VICTIM],
                       check=True)
        with Program(program) as p:
            live = Dump(p.pid).json
            core = gcore(p.pid, self.folder)
        again = self.stacks(core)
        self.same_threads(again, live)
        self.assertEqual(names(again["threads"][0])[1:4], ["wait_here", "variable_frame", "compare"])

        # Another build at the same path is not used; the right one elsewhere is found.
        os.rename(program, program + ".old")
        shutil.copy("/bin/sleep", program)
        other = self.stacks(core)
        self.assertTrue(any(re.match(r"program differs from the one of the core \(build id \w+\)", n)
                            for n in other["notes"]), other["notes"])
        self.assertNotIn("variable_frame", str(other["threads"]))
        self.assertEqual(names(self.stacks(core, "--program", program + ".old")["threads"][0]),
                         names(again["threads"][0]))
        refused = xpurun("--core", core, program)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("is not the program of the core file", refused.stderr)
        self.assertIn("[E-CORE]", refused.stderr)
        os.unlink(program)
        gone = self.stacks(core)
        self.assertTrue(any("program of the core is not here" in n for n in gone["notes"]), gone["notes"])
        os.mkdir(f"{self.folder}/symbols")
        os.rename(program + ".old", f"{self.folder}/symbols/program")
        self.assertEqual(names(self.stacks(core, "--symbols", f"{self.folder}/symbols")["threads"][0]),
                         names(again["threads"][0]))

    def test_the_rank_of_a_cpp_program(self):
        """RANK alone is enough."""
        need("g++")
        source, program = (os.path.join(self.folder, name) for name in ("abort.cpp", "simulate"))
        with open(source, "w") as f:
            f.write("#include <stdlib.h>\n__attribute__((noinline)) void fails() { abort(); }\n"
                    "int main() { fails(); return 1; }\n")
        subprocess.run(["g++", "-g", "-O0", "-o", program, source], check=True)
        env = {k: v for k, v in os.environ.items() if k not in ("WORLD_SIZE", "LOCAL_RANK")}
        core, _ = kernel_core([program], self.folder, env={**env, "RANK": "6"})
        self.assertRegex(xpurun("--core", core).stderr, r"rank 6 \(pid \d+, simulate\) died of SIGABRT in fails")

    def test_a_fault_in_a_thread_of_python(self):
        script = os.path.join(self.folder, "job.py")
        with open(script, "w") as f:
            f.write("import ctypes, threading, time\n"
                    "def crash():\n"
                    "    ctypes.string_at(16)\n"
                    "t = threading.Thread(target=crash, name='loader')\n"
                    "t.start()\n"
                    "t.join()\n")
        os.utime(script, (1, 1))
        core, done = kernel_core([ANY_PYTHON, script], self.folder, env={**os.environ, "RANK": "3", "WORLD_SIZE": "4",
                                                                          "LOCAL_RANK": "1"})
        self.assertEqual(done.returncode, -signal.SIGSEGV)
        result = xpurun("--core", core)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"rank 3 \(pid \d+, \w+\) died of SIGSEGV \(address 0x10\) in crash "
                                        r"\(job\.py:3: string_at\)")
        self.assertIn("rank 3", result.stdout)
        self.assertIn("died of SIGSEGV (address 0x10)", result.stdout)
        threads = re.findall(r"^Threads? .*", result.stdout, re.M)
        self.assertRegex(threads[0], r'"loader".*: crashed')
        self.assertRegex(threads[1], r'"MainThread".*, main')
        self.assertIn("job.py:3", result.stdout)

        # Every format; the core of the same process twice stands for two ranks of a job.
        as_json = json.loads(xpurun("--core", core, "--format", "json").stdout)["processes"][0]
        self.assertEqual(as_json["fatal_signal"]["signal"], signal.SIGSEGV)
        self.assertEqual(as_json["fatal_signal"]["address"], "0x10")
        self.assertEqual((as_json["rank"], as_json["local_rank"], as_json["role"]), (3, 1, "rank"))
        for form in ("tree", "pyspy", "folded", "speedscope", "pprof", "svg", "html"):
            out = os.path.join(self.folder, f"out.{form}")
            made = xpurun("--core", core, "--format", form, "--out", out, "-q")
            self.assertEqual((made.returncode, made.stderr), (0, ""), form)
            with open(out, "rb") as f:
                content = f.read()
            self.assertTrue(content, form)
            if form not in ("pprof", "tree"):
                self.assertIn(b"crash", content, form)
        both = xpurun("--core", core, "--core", core)
        self.assertEqual(both.stdout.count("Process "), 2)

        # What a full disk leaves.
        size = os.path.getsize(core)
        with open(core, "r+b") as f:
            f.truncate(size - size // 4)
        cut = xpurun("--core", core)
        self.assertEqual(cut.returncode, 0, cut.stderr)
        self.assertIn("the core file is cut off", cut.stdout)
        self.assertIn("died of SIGSEGV", cut.stderr)

    def test_an_uncaught_cpp_exception(self):
        need("g++")
        program = os.path.join(self.folder, "program")
        with open(program + ".cpp", "w") as f:
            f.write("#include <stdexcept>\n#include <cstdlib>\n"
                    "[[gnu::noinline]] void fail(int n) { if (n > 0) throw std::runtime_error(\"no more data\"); }\n"
                    "int main(int argc, char**) { fail(argc); return 0; }\n")
        subprocess.run(["g++", "-O1", "-rdynamic", "-o", program, program + ".cpp"], check=True)
        core, _ = kernel_core([program], self.folder)
        result = xpurun("--core", core)
        self.assertIn("died of SIGABRT (std::runtime_error: no more data) in fail (program)", result.stderr)
        self.assertIn("    fail (program)\n    main (program)\n", result.stdout)
        # A core file with the code of all files needs no file.
        os.unlink(core)
        full, _ = kernel_core(["sh", "-c", f"echo 0x7f > /proc/self/coredump_filter; exec {program}"], self.folder)
        os.unlink(program)
        result = xpurun("--core", full)
        self.assertIn("    fail (program)\n    main (program)\n", result.stdout)
        self.assertNotIn("note:", result.stdout)

    def test_refusals(self):
        def refused(*args):
            result = xpurun(*args)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("[E-CORE]", result.stderr)
            self.assertEqual(result.stdout, "")
            return result.stderr
        path = os.path.join(self.folder, "core")
        self.assertIn("No such file", refused("--core", path))
        self.assertIn("a program or a library", refused("--core", "/bin/sh"))
        self.assertIn("not a regular file", refused("--core", self.folder))
        with open(path, "wb") as f:
            f.write(b"\x28\xb5\x2f\xfd" + b"x" * 100)
        self.assertIn("zstd -dc", refused("--core", path))
        if os.geteuid() != 0:
            os.chmod(path, 0)
            self.assertIn("Permission denied", refused("--core", path))
        for wrong in (("--core", path, "a", "b"), ("--core", path, "--pid", "1"), ("--core", path, "--children"),
                      ("--core", path, "--unwinder", "gdb"), ("--core", "")):
            self.assertEqual(xpurun(*wrong).returncode, 2, wrong)

    def test_one_of_two_cannot_be_read(self):
        with Target("import time\nprint('ready', flush=True)\ntime.sleep(1000)") as t:
            core = gcore(t.pid, self.folder)
        result = xpurun("--core", f"{self.folder}/none,{core}")
        self.assertEqual(result.returncode, 1)
        self.assertIn("[E-CORE]", result.stderr)
        self.assertIn(f"pid {t.pid} ", result.stderr)
        self.assertIn("was alive when its core file was written", result.stderr)
        self.assertIn(f"Process {t.pid}", result.stdout)
        forgotten = xpurun(core)
        self.assertEqual(forgotten.returncode, 1)
        self.assertIn(f"xpurun stacks --core {core}", forgotten.stderr)


if __name__ == "__main__":
    unittest.main()
