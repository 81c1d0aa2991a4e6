"""gdb and cuda-gdb as fallback engines: their output is used, and their failures do no harm."""

import json
import os
import signal
import stat
import subprocess
import tempfile
import textwrap
import time
import unittest
import unittest.mock

from stackdump_live import STACKDUMP, Dump, Program, Target, markers, names, need, python_frames

# A 32-bit program without libraries: it needs no 32-bit compiler or C library.
PAUSE_32 = """
    .globl _start
    .globl inner
    .type inner, @function
inner:
    .cfi_startproc
    movl $29, %eax
    int $0x80
    jmp inner
    .cfi_endproc
    .size inner, .-inner
    .type _start, @function
_start:
    .cfi_startproc
    .cfi_undefined %eip
    movl $4, %eax
    movl $1, %ebx
    movl $text, %ecx
    movl $6, %edx
    int $0x80
    call inner
    nop
    .cfi_endproc
    .size _start, .-_start
    .data
text: .ascii "ready\\n"
"""

# cuda-gdb's output for a hung all-reduce, and the variations of its versions.
KERNELS = """
  Kernel Parent Dev Grid Status                 SMs Mask     GridDim  BlockDim Invocation
*      0      -   1    3 Active 0x00000000000000000000000000ffffff (24,1,1) (512,1,1) \
void ncclDevKernel_AllReduce_Sum_f32_RING_LL<4096ul>(ncclDevKernelArgsStorage<4096ul>)()
       1      -   1    4 Active 0x00000000000000000000000000000001 (1,1,1) (32,4,1) spin()
"""

DRIVER = r"""
#include <stdio.h>
#include <unistd.h>
int cuStreamSynchronize(void) { puts("ready"); fflush(stdout); for (;;) pause(); return 0; }
"""
CALLER = "int cuStreamSynchronize(void);\nint main(void) { return cuStreamSynchronize() + 1; }\n"


def group_members(marker):
    """Processes whose command line contains the marker."""
    out = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if marker.encode() in f.read():
                    out.append(int(pid))
        except OSError:
            pass
    return out


class Tools(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="xpurun-tools-")
        self.addCleanup(self.folder.cleanup)
        self.dir = self.folder.name

    def script(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write("#!/bin/sh\n" + textwrap.dedent(text))
        os.chmod(path, stat.S_IRWXU)
        return path

    def assert_runs_on(self, process):
        with open(f"/proc/{process.pid}/stat") as f:
            self.assertIn(f.read().rsplit(")", 1)[1].split()[0], "SR")


class Gdb(Tools):
    def test_32_bit_process(self):
        for tool in ("gdb", "as", "ld"):
            need(tool)
        source, program = os.path.join(self.dir, "a.s"), os.path.join(self.dir, "pause32")
        with open(source, "w") as f:
            f.write(PAUSE_32)
        subprocess.run(["as", "--32", "-o", source + ".o", source], check=True)
        subprocess.run(["ld", "-m", "elf_i386", "-o", program, source + ".o"], check=True)
        try:
            subprocess.run([program], timeout=0.3, capture_output=True)
        except OSError:
            self.skipTest("this kernel runs no 32-bit programs")
        except subprocess.TimeoutExpired:
            pass
        with Program(program) as p:
            d = Dump(p.pid)
            self.assert_runs_on(p.process)
        self.assertEqual(d.rc, 0, d.stderr)
        self.assertEqual(d.json["method"], "gdb", d.json.get("notes"))
        self.assertEqual(names(d.main), ["inner", "_start"])

    def test_on_request(self):
        need("gdb")
        with Target("import time\nprint('ready', flush=True)\ntime.sleep(1000)") as t:
            d = Dump(t.pid, "--unwinder", "gdb")
            self.assert_runs_on(t.process)
        self.assertEqual(d.json["method"], "gdb", d.json.get("notes"))
        self.assertEqual([f["func"] for f in python_frames(d.main)], ["<module>"])
        self.assertGreater(len([f for f in d.main["frames"] if f["kind"] == "native"]), 5)

    def test_not_without_need(self):
        fake = self.script("gdb", "echo called >&2; exit 1")
        with Program("sh", "-c", "echo ready; exec sleep 60") as p:
            d = Dump(p.pid, "--gdb", fake)
        self.assertEqual(d.json["method"], "ptrace")

    def asleep(self):
        """A process in uninterruptible sleep: the parent of a vfork whose child does not continue."""
        need("cc")
        source, program = os.path.join(self.dir, "vfork.c"), os.path.join(self.dir, "vfork")
        with open(source, "w") as f:
            f.write('#include <stdlib.h>\n#include <unistd.h>\n#include <sys/prctl.h>\n'
                    'int main(void) { if (write(1, "ready\\n", 6) == 6 && vfork() == 0) {'
                    ' prctl(1, 9); for (;;) pause(); } return 0; }\n')
        subprocess.run(["cc", "-o", program, source], check=True)
        return Program(program)

    def test_not_in_uninterruptible_sleep(self):
        called = os.path.join(self.dir, "called")
        fake = self.script("gdb", f"touch {called}; exec sleep 1000")
        with self.asleep() as p:
            for extra, note in (((), None), (("--unwinder", "gdb"), "gdb cannot stop thread"),
                                (("--gpu-stacks", "always", "--cuda-gdb", fake), "gdb cannot stop thread")):
                begin = time.monotonic()
                d = Dump(p.pid, "--gdb", fake, *extra)
                self.assertLess(time.monotonic() - begin, 10)  # far below the limits of gdb and cuda-gdb
                self.assertEqual((d.rc, d.json["method"]), (0, "ptrace"), d.stderr)
                self.assertFalse(os.path.exists(called))
                self.assertEqual(d.main["state"], "D")
                self.assertIn("vfork", d.main["syscall"] + d.main.get("wchan", "") + " ".join(names(d.main)))
                if note:
                    self.assertTrue(any(note in n for n in d.json["notes"]), d.json["notes"])
            with open(f"/proc/{p.pid}/status") as f:
                status = f.read()
            self.assertIn("State:\tD", status)
            self.assertIn("SigPnd:\t0000000000000000", status)

    def test_that_waits_for_a_thread_that_cannot_stop(self):
        """The sleep begins after gdb has started: gdb is ended soon and leaves nothing in the target."""
        need("gdb")
        fake = self.script("gdb", 'for pid; do [ "$last" = -p ] && break; last=$pid; done\n'
                                  'until grep -q "State:.D" /proc/$pid/status; do sleep 0.01; done\nexec gdb "$@"')
        need("cc")
        source, program = os.path.join(self.dir, "late.c"), os.path.join(self.dir, "late")
        with open(source, "w") as f:
            f.write(
                '#include <unistd.h>\n#include <signal.h>\n#include <sys/prctl.h>\nstatic void none(int s) { (void)s;'
                ' }\nint main(void) { signal(SIGUSR1, none); if (write(1, "ready\\n", 6) != 6) return 1; pause(); if'
                ' (vfork() == 0) { prctl(1, 9); for (;;) pause(); } return 0; }\n'
            )
        subprocess.run(["cc", "-o", program, source], check=True)
        with Program(program) as p:
            with tempfile.TemporaryDirectory() as folder:
                helper = subprocess.Popen([STACKDUMP, "--pid", str(p.pid), "--out", folder + "/x.stacks.json",
                                           "--unwinder", "gdb", "--gdb", fake], stdout=subprocess.PIPE, text=True)
                while not group_members(fake):  # gdb's stand-in has begun
                    self.assertIsNone(helper.poll())
                    time.sleep(0.01)
                os.kill(p.pid, signal.SIGUSR1)
                begin = time.monotonic()
                helper.communicate(timeout=30)
                self.assertLess(time.monotonic() - begin, 14)  # the time limit of gdb is 15 s
                with open(folder + "/x.stacks.json") as f:
                    self.assertTrue(any("cannot stop thread" in n for n in json.load(f)["notes"]))
            with open(f"/proc/{p.pid}/status") as f:
                status = f.read()
            self.assertIn("SigPnd:\t0000000000000000", status)
            with open(f"/proc/{p.pid}/task/{p.pid}/children") as f:
                os.kill(int(f.read()), signal.SIGKILL)
            self.assertEqual(p.process.wait(10), 0)

    def test_that_hangs(self):
        marker = f"hanging-{os.getpid()}"
        fake = self.script(
            "gdb",
            f"""
            sh -c 'exec sleep 1000' {marker} &
            i=0; while [ $i -lt 20000 ]; do echo 'much noise on both pipes, more than they hold'
              echo noise >&2; i=$((i+1)); done
            sh -c 'sleep 1000; true' {marker}
        """,
        )
        with Program("sh", "-c", "echo ready; exec sleep 60") as p:
            begin = time.monotonic()
            d = Dump(p.pid, "--unwinder", "gdb", "--gdb", fake, "--gdb-limit-ms", "1500")
            self.assertLess(time.monotonic() - begin, 10)
            self.assert_runs_on(p.process)
        self.assertEqual(d.rc, 0, d.stderr)
        self.assertTrue(any("did not finish" in n for n in d.json["notes"]), d.json["notes"])
        self.assertTrue(d.main["frames"])
        time.sleep(0.1)
        self.assertEqual(group_members(marker), [])

    def test_it_is_not_asked_to_end(self):
        """While gdb waits for the process, gdb passes SIGTERM on to the process as SIGINT."""
        fake = self.script("gdb", """
            pid=; for word; do [ "$last" = -p ] && pid=$word; last=$word; done
            trap 'kill -INT "$pid"' TERM
            while :; do sleep 0.1; done
        """)
        with Program("sh", "-c", "echo ready; exec sleep 60") as p:
            d = Dump(p.pid, "--unwinder", "gdb", "--gdb", fake, "--gdb-limit-ms", "500")
            self.assertTrue(any("did not finish" in n for n in d.json["notes"]), d.json)
            time.sleep(0.2)
            self.assert_runs_on(p.process)

    def test_killed_while_it_holds_the_process(self):
        need("gdb")
        fake = self.script("gdb", 'exec gdb "$@" -ex "shell sleep 1000"')
        with Program("sh", "-c", "echo ready; exec sleep 60") as p:
            d = Dump(p.pid, "--unwinder", "gdb", "--gdb", fake, "--gdb-limit-ms", "3000")
            self.assert_runs_on(p.process)
        self.assertEqual(d.json["method"], "gdb")  # the output up to that moment is used


class CudaGdb(Tools):
    @classmethod
    def setUpClass(cls):
        need("cc")

    def waiter(self):
        """A program that waits in a fake driver library."""
        lib = os.path.join(self.dir, "libcuda.so.1")
        for name, text in (("driver.c", DRIVER), ("caller.c", CALLER)):
            with open(os.path.join(self.dir, name), "w") as f:
                f.write(text)
        subprocess.run(["cc", "-O1", "-fPIC", "-shared", "-o", lib, f"{self.dir}/driver.c"], check=True)
        program = os.path.join(self.dir, "caller")
        subprocess.run(["cc", "-O1", "-o", program, f"{self.dir}/caller.c", lib, f"-Wl,-rpath,{self.dir}"], check=True)
        return Program(program)

    def fake(self, output=KERNELS, more=""):
        with open(os.path.join(self.dir, "answer"), "w") as f:
            f.write(output)
        return self.script("cuda-gdb", f"echo \"$@\" > {self.dir}/called\ncat {self.dir}/answer\n{more}")

    def called(self):
        return os.path.exists(os.path.join(self.dir, "called"))

    def test_kernels_of_a_waiting_thread(self):
        with self.waiter() as p:
            d = Dump(p.pid, "--gpu-stacks", "auto", "--cuda-gdb", self.fake())
        self.assertEqual(d.json["gpu_kernels"], [
            {"name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
             "full_name": "void ncclDevKernel_AllReduce_Sum_f32_RING_LL<4096ul>(ncclDevKernelArgsStorage<4096ul>)()",
             "device": 1, "grid": 3, "grid_dim": "24,1,1", "block_dim": "512,1,1", "status": "Active"},
            {"name": "spin", "full_name": "spin()", "device": 1, "grid": 4, "grid_dim": "1,1,1",
             "block_dim": "32,4,1", "status": "Active"}])
        self.assertEqual([f["kind"] for f in d.main["frames"][:3]], ["gpu", "gpu", "native"])
        self.assertEqual(names(d.main)[:2], ["ncclDevKernel_AllReduce_Sum_f32_RING_LL", "spin"])
        self.assertIn("cuStreamSynchronize", names(d.main))
        self.assertEqual(d.main["frames"][0]["module"], "GPU 1")

    def test_only_when_it_helps(self):
        fake = self.fake()
        with Program("sh", "-c", "echo ready; exec sleep 60") as p:
            d = Dump(p.pid, "--gpu-stacks", "auto", "--cuda-gdb", fake)
            self.assertFalse(self.called())
            self.assertNotIn("gpu_kernels", d.json)
            d = Dump(p.pid, "--gpu-stacks", "always", "--cuda-gdb", fake)
            self.assertTrue(self.called())
            self.assertEqual(len(d.json["gpu_kernels"]), 2)
            self.assertEqual(d.main["frames"][0]["kind"], "native")
            d = Dump(p.pid, "--gpu-stacks", "always", "--cuda-gdb", "/no/such/cuda-gdb")
            self.assertTrue(any("not installed" in n for n in d.json["notes"]))
        with self.waiter() as p:
            os.unlink(os.path.join(self.dir, "called"))
            Dump(p.pid, "--cuda-gdb", fake)
            Dump(p.pid, "--gpu-stacks", "never", "--cuda-gdb", fake)
            self.assertFalse(self.called())

    def test_it_is_found_on_path(self):
        self.fake()
        with self.waiter() as p, unittest.mock.patch.dict(os.environ, PATH=f"{self.dir}:{os.environ['PATH']}"):
            d = Dump(p.pid, "--gpu-stacks", "always", "--cuda-gdb", "cuda-gdb")
            self.assertIn("gpu_kernels", d.json)

    def test_other_answers(self):
        with self.waiter() as p:
            d = Dump(p.pid, "--gpu-stacks", "auto", "--cuda-gdb", self.fake("No CUDA kernels.\n"))
            self.assertNotIn("notes", d.json)
            d = Dump(p.pid, "--gpu-stacks", "auto", "--cuda-gdb", self.fake("fatal:  not possible here\n", "exit 1"))
            self.assertTrue(any("not possible here" in n for n in d.json["notes"]), d.json)
            d = Dump(p.pid, "--gpu-stacks", "auto", "--cuda-gdb", self.fake("Kernel GridDim\n* ((( 0x\n\n 1 2 3\n"))
            self.assertEqual(d.rc, 0)
            self.assertEqual(markers(d.main), [])

    def test_that_hangs_holding_the_process(self):
        need("gdb")
        marker = f"gpu-hanging-{os.getpid()}"
        fake = self.script("cuda-gdb", f"""
            pid=; for word; do [ "$last" = -p ] && pid=$word; last=$word; done
            exec gdb -nx -q -batch -p "$pid" -ex 'shell sleep 1000 # {marker}'
        """)
        with self.waiter() as p:
            d = Dump(p.pid, "--gpu-stacks", "auto", "--cuda-gdb", fake, "--gpu-limit-ms", "3000")
            self.assert_runs_on(p.process)
        self.assertTrue(any("did not finish" in n for n in d.json["notes"]), d.json)
        self.assertIn("cuStreamSynchronize", names(d.main))
        time.sleep(0.1)
        self.assertEqual(group_members(marker), [])

    def test_breakpoints_of_a_debugger_that_does_not_end_leave_the_process(self):
        need("gdb")
        source = os.path.join(self.dir, "ticks.c")
        with open(source, "w") as f:
            f.write("#include <stdio.h>\n#include <unistd.h>\n"
                    "__attribute__((noinline)) void tick(int i) { if (i == 300) { puts(\"still here\"); } }\n"
                    "int main(void) { puts(\"ready\"); fflush(stdout);\n"
                    "  for (int i = 1;; ++i) { usleep(10000); tick(i % 301); fflush(stdout); } }\n")
        program = os.path.join(self.dir, "ticks")
        subprocess.run(["cc", "-O1", "-o", program, source], check=True)
        fake = self.script("cuda-gdb", """
            pid=; for word; do [ "$last" = -p ] && pid=$word; last=$word; done
            exec gdb -nx -q -batch -p "$pid" -ex 'break tick if 0' -ex continue
        """)
        with Program(program) as p:
            d = Dump(p.pid, "--gpu-stacks", "always", "--cuda-gdb", fake, "--gpu-limit-ms", "3000")
            self.assertTrue(any("did not finish" in n for n in d.json["notes"]), d.json)
            # The first line may be older than the end of the debugger.
            for _ in range(2):
                self.assertEqual(p.process.stdout.readline().strip(), "still here")


if __name__ == "__main__":
    unittest.main()
