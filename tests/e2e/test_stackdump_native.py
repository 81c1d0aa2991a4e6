"""Native frames: callbacks, deleted and damaged libraries, crash contexts."""

import os
import re
import subprocess
import tempfile
import time
import unittest

from stackdump_live import Dump, Target, markers, names, need, python_frames

C_LIBRARY = r"""
#include <stdlib.h>
#include <unistd.h>
typedef void (*callback)(void);
__attribute__((noinline)) void inner_of_library(callback f) { f(); __asm__ volatile(""); }
__attribute__((noinline)) void outer_of_library(callback f) { inner_of_library(f); __asm__ volatile(""); }
"""

CRASH_LIBRARY = r"""
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
static char stack[65536];
static void handler(int s, siginfo_t *i, void *uc) {
  char line[64];
  int n = snprintf(line, sizeof line, "%ld %p\n", syscall(SYS_gettid), uc);
  write(1, line, n);
  for (;;) pause();
}
void install(void) {
  stack_t ss = {.ss_sp = stack, .ss_size = sizeof stack};
  sigaltstack(&ss, 0);
  struct sigaction sa;
  memset(&sa, 0, sizeof sa);
  sa.sa_sigaction = handler;
  sa.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &sa, 0);
}
__attribute__((noinline)) void write_to(volatile int *p) { *p = 1; }
__attribute__((noinline)) void crash_by_write(void) { write_to((int *)8); __asm__ volatile(""); }
__attribute__((noinline)) void crash_by_call(void (*f)(void)) { f(); __asm__ volatile(""); }
__attribute__((noinline)) int crash_by_depth(int n) {
  volatile char a[4096]; a[0] = n; return crash_by_depth(n + 1) + a[0];
}
"""


def build_library(folder, source, *flags):
    need("cc")
    c = os.path.join(folder, "lib.c")
    with open(c, "w") as f:
        f.write(source)
    so = os.path.join(folder, "libxpuruntest.so")
    subprocess.run(["cc", "-O1", "-fPIC", "-shared", "-o", so, c, *flags], check=True)
    return so


class Native(unittest.TestCase):
    LOAD = """
        import ctypes, os, sys, time
        lib = ctypes.CDLL({so!r})
        if {unlink}: os.unlink({so!r})
        CALLBACK = ctypes.CFUNCTYPE(None)
        def called_back():
            print("ready", flush=True)
            time.sleep(1000)
        lib.outer_of_library(CALLBACK(called_back))
    """

    def dump_library(self, unlink, patch=None, prefix=()):
        with tempfile.TemporaryDirectory() as d:
            so = build_library(d, C_LIBRARY)
            if patch:
                patch(so)
            with Target(self.LOAD.format(so=so, unlink=unlink)) as t:
                return Dump(t.pid, prefix=prefix)

    def check_library(self, d):
        self.assertEqual(d.json["status"], "ok", d.stderr)
        self.assertEqual(markers(d.main), [])
        frames = names(d.main)
        self.assertIn("inner_of_library", frames)
        self.assertEqual(frames[frames.index("inner_of_library") + 1], "outer_of_library")
        self.assertLess(frames.index("called_back"), frames.index("inner_of_library"))
        self.assertLess(frames.index("outer_of_library"), frames.index("<module>"))

    def test_library(self):
        self.check_library(self.dump_library(False))

    def test_deleted_library(self):
        self.check_library(self.dump_library(True))

    def test_deleted_library_read_from_memory(self):
        # /proc/PID/map_files needs a capability; without it the image comes from the process's memory.
        need("setpriv")
        if os.geteuid() != 0:
            self.skipTest("nothing to drop")
        self.check_library(self.dump_library(
            True, prefix=["setpriv", "--bounding-set=-sys_admin,-checkpoint_restore", "--inh-caps=-all"]))

    def test_table_that_cannot_be_searched(self):
        # .eh_frame_hdr with an omitted table (encoding 0xff): libunwind's own look-up aborts on it.
        def patch(so):
            out = subprocess.run(["readelf", "-SW", so], capture_output=True, text=True, check=True).stdout
            offset = int(re.search(r"\.eh_frame_hdr\s+PROGBITS\s+\w+\s+(\w+)", out).group(1), 16)
            with open(so, "r+b") as f:
                f.seek(offset + 3)
                f.write(b"\xff")

        need("readelf")
        self.check_library(self.dump_library(False, patch))

    def crash(self, what):
        with tempfile.TemporaryDirectory() as d:
            so = build_library(d, CRASH_LIBRARY)
            with Target(f"""
                import ctypes
                lib = ctypes.CDLL({so!r})
                def dies():
                    {what}
                lib.install()
                dies()
            """) as t:
                tid, context = t.first_line.split()
                return Dump(t.pid, "--crash-tid", tid, "--crash-ucontext", context)

    def test_crash_context(self):
        d = self.crash("lib.crash_by_write()")
        self.assertEqual(d.json["status"], "ok", d.stderr)
        self.assertTrue(d.main["crashed"])
        self.assertEqual(names(d.main)[:2], ["write_to", "crash_by_write"])
        self.assertEqual([f["func"] for f in python_frames(d.main)], ["dies", "<module>"])
        self.assertEqual(markers(d.main), [])

    def test_crash_by_calling_null(self):
        d = self.crash("lib.crash_by_call(None)")
        self.assertEqual(names(d.main)[1], "crash_by_call")
        self.assertEqual(d.main["frames"][0]["func"], "[unknown code]")
        self.assertEqual([f["func"] for f in python_frames(d.main)], ["dies", "<module>"])

    def test_crash_by_calling_garbage(self):
        d = self.crash("lib.crash_by_call(ctypes.c_void_p(0xdead00000000beef))")
        self.assertIn("crash_by_call", names(d.main))

    def test_crash_by_stack_overflow(self):
        d = self.crash("lib.crash_by_depth(0)")
        self.assertTrue(d.main["crashed"])
        self.assertEqual(names(d.main)[:3], ["crash_by_depth"] * 3)
        self.assertTrue(any("unwind stopped" in m for m in markers(d.main)))
        self.assertEqual([f["func"] for f in python_frames(d.main)], ["dies", "<module>"])

    def test_program_without_python(self):
        p = subprocess.Popen(["sleep", "1000"])
        try:
            time.sleep(0.2)
            d = Dump(p.pid)
            self.assertEqual(d.json["status"], "ok")
            self.assertEqual(d.json["python_version"], "")
            self.assertNotIn("notes", d.json)
            self.assertTrue(d.main["frames"])
        finally:
            p.kill()
            p.wait()


if __name__ == "__main__":
    unittest.main()
