"""packaging/old_glibc.py makes small libraries run with glibc 2.28 and refuses those that cannot."""

import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["XPURUN_TEST_SOURCE"])
sys.path.insert(0, str(SOURCE / "packaging"))
import old_glibc  # noqa: E402  pylint: disable=wrong-import-position

OURS = "int gettid(void) { return -7; }"


class OldGlibcTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="xpurun-glibc-")
        self.addCleanup(scratch.cleanup)
        self.dir = pathlib.Path(scratch.name)
        self.functions = self.library(old_glibc.FUNCTIONS, OURS, f"-Wl,-soname,{old_glibc.FUNCTIONS}")

    def library(self, name, code, *options):
        (self.dir / "code.c").write_text("#define _GNU_SOURCE\n" + code)
        path = self.dir / name
        subprocess.run(["gcc", "-w", "-O1", "-shared", "-fPIC", "-o", str(path), str(self.dir / "code.c"), *options],
                       check=True)
        return path

    def references(self, path):
        """{function: version, or "" if none} of what the library takes from others, weak ones left out."""
        text = subprocess.run(["readelf", "-W", "--dyn-syms", str(path)], check=True, capture_output=True,
                              text=True).stdout
        return dict(re.findall(r" GLOBAL +DEFAULT +UND (\w+)(?:@(\S+))?", text))

    def refusal(self, code, *options):
        path = self.library("wrong.so", code, *options)
        with self.assertRaises(SystemExit) as stopped:
            old_glibc.lower([path], self.functions)
        return str(stopped.exception)

    def test_versions_become_old_or_none(self):
        path = self.library("changed.so", """
            #include <dlfcn.h>
            #include <math.h>
            #include <unistd.h>
            #include <sys/stat.h>
            double two(double x) { return exp(x) + sqrt(x); }
            long three(void) { return gettid() + (dlsym(RTLD_DEFAULT, "getpid") != 0 ? 1 : 0); }
        """, "-lm")
        before = self.references(path)
        self.assertGreater(old_glibc.number(before["exp"]), old_glibc.OLDEST)
        old_glibc.lower([path], self.functions)
        self.assertEqual(self.references(path),
                         {"exp": "GLIBC_2.2.5", "sqrt": "GLIBC_2.2.5", "dlsym": "GLIBC_2.2.5", "gettid": ""})
        loaded = ctypes.CDLL(str(path))
        loaded.two.restype, loaded.two.argtypes = ctypes.c_double, [ctypes.c_double]
        self.assertEqual(loaded.two(0.0), 1.0)
        # This machine's libc has the function, so that one is called.
        self.assertEqual(loaded.three(), os.getpid() + 1)

    def test_an_entry_is_reused_if_a_file_has_no_old_version(self):
        path = self.library("reused.so", "#include <math.h>\n#include <stdlib.h>\n"
                                         "double power(double x) { return pow(x, getpid() > 0 ? 2 : 3); }", "-lm")
        old_glibc.lower([path], self.functions)
        self.assertEqual(set(self.references(path).values()), {"GLIBC_2.2.5"})
        needs = subprocess.run(["readelf", "-VW", str(path)], check=True, capture_output=True, text=True).stdout
        self.assertRegex(needs, r"File: libm\.so\.6 +Cnt: 1\n.*Name: GLIBC_2\.2\.5")
        loaded = ctypes.CDLL(str(path))
        loaded.power.restype, loaded.power.argtypes = ctypes.c_double, [ctypes.c_double]
        self.assertEqual(loaded.power(3.0), 9.0)

    def test_a_missing_function_is_named(self):
        self.assertIn("wrong.so: arc4random@GLIBC_2.36 is neither in glibc 2.28 nor in libxpurun_glibc.so",
                      self.refusal("unsigned random4(void) { return arc4random() + getpid(); }"))

    def test_a_library_that_is_not_loaded_is_refused(self):
        self.assertIn("openpty@GLIBC_2.34 is in a library of glibc 2.28 that is not loaded",
                      self.refusal("int pty(int *a) { return openpty(a, a, 0, 0, 0) + getpid(); }"))

    def test_a_function_of_two_kinds_is_refused(self):
        # timer_create@GLIBC_2.2.5 has another type, and nothing else in the file has the version of the right one.
        self.assertRegex(self.refusal("int timer(void *t) { return timer_create(0, 0, t) + getpid(); }"),
                         r"timer_create@GLIBC_2\.3\.3 cannot be referred to")

    def test_a_file_without_new_versions_stays_as_it_is(self):
        path = self.library("old.so", "int one(void) { return getpid(); }")
        before = path.read_bytes()
        old_glibc.lower([path], self.functions)
        self.assertEqual(path.read_bytes(), before)

    def test_libraries_in_a_program_have_their_order(self):
        (self.dir / "main.c").write_text("int main(void) { return 0; }")
        for order, is_right in ((["-lc", str(self.functions)], True), ([str(self.functions), "-lc"], False)):
            program = self.dir / "program"
            subprocess.run(["gcc", "-o", str(program), str(self.dir / "main.c"), "-Wl,--no-as-needed",
                            "-l:libpthread.so.0", "-l:libdl.so.2", *order], check=True)
            found = list(old_glibc.wrong_order(old_glibc.ElfFile(program)))
            self.assertEqual(not found, is_right, found)


if __name__ == "__main__":
    unittest.main()
