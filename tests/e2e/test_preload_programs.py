"""Programs that must start despite the preload library: with AddressSanitizer, with musl, and with an
installation path that LD_PRELOAD cannot hold. Each runs as it does without xpurun, alone and below a shell."""

import os
import pathlib
import shutil
import subprocess
import unittest

import xpurun_test

BUILD = pathlib.Path(os.environ["XPURUN_TEST_BUILD"])
LIBRARY = BUILD / "preload" / "libxpurun_preload.so"
VICTIM = BUILD / "tests" / "preload" / "preload_victim"

BODY = """
#include <stdio.h>
#include <stdlib.h>
int main(int count, char** words) {
  char* bytes = malloc(4);
  puts("it ran");
  fflush(stdout);
  if (count > 1) bytes[atoi(words[1])] = 1;
  free(bytes);
  return 7;
}
"""
OWN_OPTIONS = 'const char* __asan_default_options(void) { return "detect_leaks=0"; }\n'


class Programs(xpurun_test.Case):
    def compile(self, name, *words, body=BODY):
        compiler = words[0]
        if shutil.which(compiler) is None:
            self.skipTest(f"needs {compiler}")
        source = self.dir / f"{name}.c"
        source.write_text(body)
        program = self.dir / name
        done = subprocess.run([*words, "-g", "-o", program, source], capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest(f"{' '.join(words)} does not link: {done.stderr[-300:]}")
        return program

    def runs(self, program, *, line=None, **env):
        """Alone and below a shell, whose children xpurun cannot know; returns the message for the first run."""
        first = None
        for command in ([program], ["sh", "-c", f"{program}; exit $?"]):
            result = self.run_xpurun("--", *command, env=self.env(**env))
            self.assertEqual((result.returncode, result.stdout), (7, "it ran\n"), result.stderr)
            self.assertNotIn("ld.so", result.stderr)
            first = first or result
            shutil.rmtree(self.out)
        if line is not None:
            self.assertIn(line, first.stderr)
        return first

    def doctor(self, program):
        """The text as one line, because the doctor wraps lines."""
        said = subprocess.run([xpurun_test.PROGRAM, "doctor", "--", program], capture_output=True, text=True,
                              timeout=60, cwd=self.dir).stdout
        return " ".join(said.split())

    def test_gcc_address_sanitizer(self):
        program = self.compile("asan", "gcc", "-fsanitize=address")
        self.runs(program, line="no stacks of memory faults, which AddressSanitizer reports itself")
        self.assertIn("program with AddressSanitizer", self.doctor(program))
        # ASan's own report of a fault is the same as without xpurun.
        result = self.run_xpurun("--", program, "4")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("heap-buffer-overflow", result.stderr)

    def test_options_from_outside_do_not_matter(self):
        program = self.compile("asan", "gcc", "-fsanitize=address")
        self.runs(program, ASAN_OPTIONS="verbosity=0:detect_leaks=0")

    def test_address_sanitizer_with_options_of_its_own(self):
        program = self.compile("own", "gcc", "-fsanitize=address", body=BODY + OWN_OPTIONS)
        # A shell's children are not known in advance; the program alone runs without the library.
        result = self.run_xpurun("--", program)
        self.assertEqual((result.returncode, result.stdout), (7, "it ran\n"), result.stderr)
        self.assertIn("must be the first library", result.stderr)
        self.assertIn("verify_asan_link_order=0", self.doctor(program))
        shutil.rmtree(self.out)
        self.runs(program, ASAN_OPTIONS="verify_asan_link_order=0")

    def test_clang_address_sanitizer(self):
        self.runs(self.compile("static", "clang", "-fsanitize=address"), line="AddressSanitizer reports itself")

    def test_clang_address_sanitizer_shared(self):
        program = self.compile("shared", "clang", "-fsanitize=address", "-shared-libasan")
        runtime = subprocess.run(["clang", "-print-file-name=libclang_rt.asan-x86_64.so"], capture_output=True,
                                 text=True, check=True).stdout.strip()
        self.runs(program, LD_LIBRARY_PATH=str(pathlib.Path(runtime).parent))

    def test_thread_sanitizer(self):
        self.runs(self.compile("tsan", "gcc", "-fsanitize=thread"))

    def test_address_sanitizer_preloaded(self):
        program = self.compile("plain", "gcc")
        runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True,
                                 check=True).stdout.strip()
        if not os.path.isabs(runtime):
            self.skipTest("needs gcc's libasan")
        # detect_leaks, because xpurun itself then runs with the ASan runtime.
        self.runs(program, line="AddressSanitizer", LD_PRELOAD=os.path.realpath(runtime),
                  ASAN_OPTIONS="detect_leaks=0")

    def test_musl(self):
        program = self.compile("musl", "musl-gcc")
        self.runs(program, line="no stacks of crashes, no timing, no logs of single ranks", RANK="0", LOCAL_RANK="0",
                  WORLD_SIZE="1")
        self.assertIn("not the preload library's C library", self.doctor(program))

    def test_path_that_ld_preload_cannot_hold(self):
        place = self.dir / "my tools: x"
        place.mkdir()
        copy = place / LIBRARY.name
        shutil.copy2(LIBRARY, copy)
        result = self.run_xpurun("--preload-library", copy, "--", VICTIM, "null", "main",
                                 env=self.env(XDG_RUNTIME_DIR=str(self.dir), RANK="0", LOCAL_RANK="0",
                                              WORLD_SIZE="1"))
        self.assertNotIn("ld.so", result.stderr)
        self.assertEqual(len(self.manifest()["crashes"]), 1, result.stderr)

    def test_rank_alone_is_a_rank_for_the_preload(self):
        for variables in ({"RANK": "0"}, {"RANK": "0", "WORLD_SIZE": "1"}, {"MV2_COMM_WORLD_RANK": "0"}):
            with self.subTest(variables):
                env = self.env(**variables)
                for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
                    if name not in variables:
                        env.pop(name, None)
                result = self.run_xpurun("--", VICTIM, "null", "main", env=env)
                crashes = self.manifest()["crashes"]
                self.assertEqual(len(crashes), 1, result.stderr)
                dump = self.out / crashes[0]["dump"]
                self.assertTrue(list(dump.glob("*.stacks.json")), list(dump.iterdir()))
                shutil.rmtree(self.out)


if __name__ == "__main__":
    unittest.main()
