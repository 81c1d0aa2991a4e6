"""The bundle in dist/ has all promised files and runs unpacked on any host with glibc 2.35 or later."""

import os
import pathlib
import re
import subprocess
import tarfile
import tempfile
import unittest

import packages

OLDEST_GLIBC = (2, 35)
GLIBC = re.compile(r"^(linux-vdso|/lib64/ld-linux-x86-64|lib(c|m|dl|pthread|rt|util|resolv))\.so\.\d+$")
PROMISED = [
    "bin/xpurun",
    "include/xpurun.h",
    "libexec/xpurun/xpurun-stackdump",
    "libexec/xpurun/xpurun-nodes",
    "lib/xpurun/libnats.so",
    "lib/xpurun/libxpurun_cupti.so",
    "lib/xpurun/libxpurun_preload.so",
    "lib/xpurun/python/sitecustomize.py",
    "lib/xpurun/selftest/job.py",
    "share/man/man1/xpurun.1",
    "share/bash-completion/completions/xpurun",
    "share/zsh/site-functions/_xpurun",
    "share/fish/vendor_completions.d/xpurun.fish",
    "share/doc/xpurun/LICENSE",
]


class BundleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        archive = packages.only("xpurun-*-linux-x86_64.tar.gz")
        cls.scratch = tempfile.TemporaryDirectory(prefix="xpurun-bundle-")
        cls.addClassCleanup(cls.scratch.cleanup)
        with tarfile.open(archive) as packed:
            cls.names = packed.getnames()
            packed.extractall(cls.scratch.name)
        cls.tree = pathlib.Path(cls.scratch.name, archive.name.removesuffix(".tar.gz"))
        cls.elfs = [path for path in sorted(cls.tree.rglob("*"))
                    if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
        cls.env = {"PATH": "/usr/bin:/bin", "HOME": cls.scratch.name, "LC_ALL": "C"}

    def run_in_scratch(self, *command):
        return subprocess.run(command, env=self.env, cwd=self.scratch.name, capture_output=True, text=True,
                              check=False, timeout=60)

    def test_all_is_below_one_folder(self):
        self.assertEqual({name.split("/")[0] for name in self.names}, {self.tree.name})

    def test_what_is_promised_is_there(self):
        missing = [name for name in PROMISED if not list(self.tree.glob(name + "*"))]
        self.assertEqual(missing, [])

    def test_the_helper_of_several_nodes_finds_its_libraries(self):
        result = self.run_in_scratch(str(self.tree / "libexec/xpurun/xpurun-nodes"))
        # Loaded, and missing its supervisor.
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("descriptor 3", result.stderr)

    def test_no_symbol_is_newer_than_the_promised_glibc(self):
        self.assertGreaterEqual(len(self.elfs), 3)
        for path in self.elfs:
            text = self.run_in_scratch("readelf", "-VW", str(path)).stdout
            versions = [tuple(map(int, found.split("."))) for found in re.findall(r"\bGLIBC_(\d+(?:\.\d+)+)", text)]
            self.assertTrue(versions, path)
            self.assertLessEqual(max(versions)[:2], OLDEST_GLIBC, path)

    def test_every_library_is_glibc_or_inside(self):
        # Libraries inside the bundle are found through the programs' DT_RPATH only.
        programs = [path for path in self.elfs if path.parent.parent.name != "lib"]
        self.assertGreaterEqual(len(programs), 2)
        for path in programs:
            for line in self.run_in_scratch("ldd", str(path)).stdout.splitlines():
                fields = line.split()
                if fields and not GLIBC.match(fields[0]):
                    self.assertIn(str(self.tree), line, f"{path.relative_to(self.tree)}: {line}")

    def test_the_programs_run(self):
        xpurun = str(self.tree / "bin/xpurun")
        version = self.run_in_scratch(xpurun, "--version")
        self.assertEqual(version.returncode, 0, version.stderr)
        self.assertIn(self.tree.name.split("-")[1], version.stdout)
        done = self.run_in_scratch(xpurun, "--", "sh", "-c", "echo $LD_PRELOAD; exit 3")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(os.path.realpath(done.stdout.strip()),
                         os.path.realpath(self.tree / "lib/xpurun/libxpurun_preload.so"))
        # The verdict alone: the loader prints an error for a missing library.
        self.assertRegex(done.stderr, r"\Axpurun: exit: .* status 3 .*\nxpurun: report: .*\n\Z")


if __name__ == "__main__":
    unittest.main()
