"""The preload library for aarch64: compiled with the cross compiler, and its entries run under qemu-user.

The commands are those of the x86-64 build with another compiler, so that no second list of files and options exists.
"""

import concurrent.futures
import os
import pathlib
import re
import shlex
import shutil
import unittest

import packages

LIBRARY = "preload/libxpurun_preload.so"
COMPILER = "aarch64-linux-gnu-g++"
ROOT = "/usr/aarch64-linux-gnu"
# As in preload/meson.build.
OF_AARCH64 = ["-mno-outline-atomics"]
PARAMETERS = ("void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int at, int lda, "
              "const void *b, int bt, int ldb, const void *beta, void *c, int ct, int ldc, int compute, int algo")
# Every argument arrives unchanged, those on the stack too.
VENDOR = f"""
int cublasGemmEx({PARAMETERS}) {{
  const long found[] = {{(long)handle, ta, tb, m, n, k, (long)alpha, (long)a, at, lda, (long)b, bt, ldb, (long)beta,
                        (long)c, ct, ldc, compute, algo}};
  for (int i = 0; i < 19; ++i)
    if (found[i] != 100 + i) return 1;
  return 77;
}}
"""
PROGRAM = f"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int cublasGemmEx({PARAMETERS});
#define P(n) ((void *)(n))
static int call(void) {{
  return cublasGemmEx(P(100), 101, 102, 103, 104, 105, P(106), P(107), 108, 109, P(110), 111, 112, P(113), P(114), 115,
                      116, 117, 118);
}}
int main(void) {{
  Dl_info info;
  if (dladdr(dlsym(RTLD_DEFAULT, "cublasGemmEx"), &info) == 0) return 2;
  int first = call();  /* looks up the vendor's function */
  printf("%s %d %d\\n", info.dli_fname, first, call());
}}
"""


@unittest.skipUnless(shutil.which(COMPILER) or os.environ.get("CI"), f"needs {COMPILER}")
class Aarch64Test(packages.Case):
    def setUp(self):
        super().setUp()
        self.env["PATH"] = os.environ["PATH"]
        self.library = self.dir / "libxpurun_preload.so"

    def commands(self):
        """The link command, and the compile commands before it."""
        text = self.succeed("ninja", "-C", packages.BUILD, "-t", "commands", LIBRARY)
        lines = [line for line in text.splitlines() if "libxpurun_preload.so" in line]
        return lines[-1], [line for line in lines[:-1] if line.endswith(".cpp")]

    def cross(self, command):
        """The command's words for the cross compiler, with objects in this test's folder."""
        words = shlex.split(command)
        words = words[next(i for i, word in enumerate(words) if word.startswith("-")):]
        launcher = ["ccache"] if shutil.which("ccache") else []
        moved = [str(self.dir / word.replace("/", "_")) if word.endswith((".o", ".d")) else word for word in words]
        return [*launcher, COMPILER, *OF_AARCH64, *moved]

    def build(self):
        link, compile_commands = self.commands()
        self.assertGreater(len(compile_commands), 40)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for output in pool.map(lambda line: self.succeed(*self.cross(line), cwd=packages.BUILD, env=os.environ),
                                   compile_commands):
                self.assertEqual(output, "")
        words = self.cross(link)
        words[words.index("-o") + 1] = str(self.library)
        self.succeed(*words, cwd=packages.BUILD, env=os.environ)

    def exported(self, nm, library):
        return set(re.findall(r" [A-Z] ([^@\n]+)", self.succeed(nm, "-D", "--defined-only", library)))

    def test_builds_and_hooks(self):
        self.build()
        self.assertIn("AArch64", self.succeed("readelf", "-h", self.library))
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", self.succeed("readelf", "-dW", self.library))
        self.assertEqual(needed, ["libc.so.6"])
        self.assertEqual(self.exported("aarch64-linux-gnu-nm", self.library),
                         self.exported("nm", packages.BUILD / LIBRARY))
        self.check_entries()

    def check_entries(self):
        for name, text in (("vendor.c", VENDOR), ("program.c", PROGRAM)):
            pathlib.Path(self.dir, name).write_text(text)
        gcc = COMPILER.replace("g++", "gcc")
        self.succeed(gcc, "-shared", "-fPIC", "-o", "libvendor.so", "vendor.c")
        self.succeed(gcc, "-o", "program", "program.c", "-L.", "-lvendor", "-Wl,-rpath,$ORIGIN")
        done = self.run_in_dir("qemu-aarch64", "-L", ROOT, "-E", f"LD_PRELOAD={self.library}", "./program")
        self.assertEqual((done.stdout, done.stderr), (f"{self.library} 77 77\n", ""))


if __name__ == "__main__":
    unittest.main()
