"""The bundle in dist/ has all promised files and runs unpacked on any host with glibc 2.28 or later."""

import ctypes
import errno
import os
import pathlib
import re
import signal
import subprocess
import tarfile
import tempfile
import threading
import time
import unittest

import packages

OLDEST_GLIBC = (2, 28)
GLIBC = re.compile(r"^(linux-vdso|/lib64/ld-linux-x86-64|lib(c|m|dl|pthread|rt|util|resolv))\.so\.\d+$")
# Functions without a version before 2.34 that glibc 2.28 has under one version, so that the loader finds that one.
OF_OLD_GLIBC = {"pthread_condattr_setclock"}
FUNCTIONS = "libxpurun_glibc.so"
PROMISED = [
    "bin/xpurun",
    "include/xpurun.h",
    "libexec/xpurun/xpurun-stackdump",
    "libexec/xpurun/xpurun-nodes",
    "lib/xpurun/libnats.so",
    "lib/xpurun/libxpurun_cupti.so",
    "lib/xpurun/libxpurun_glibc.so",
    "lib/xpurun/libxpurun_preload.so",
    "lib/xpurun/libxpurun_preload.so.glibc-2.28",
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

    def symbols(self, path):
        """Binding, whether it is defined, name and version of the dynamic symbols."""
        for line in self.run_in_scratch("readelf", "-W", "--dyn-syms", str(path)).stdout.splitlines():
            fields = line.split()
            if len(fields) >= 8 and fields[0].rstrip(":").isdigit():
                name, _, version = fields[7].partition("@")
                yield fields[4], fields[6] != "UND", name, version

    def needed(self, path):
        return re.findall(r"\(NEEDED\).*\[(.*)\]", self.run_in_scratch("readelf", "-dW", str(path)).stdout)

    def test_every_function_without_a_version_is_there_in_the_oldest_glibc(self):
        defined = {path.name: {name for _, is_defined, name, _ in self.symbols(path) if is_defined}
                   for path in self.elfs}
        inside = set().union(*defined.values())
        found = set()
        for path in self.elfs:
            # Such a library is in processes without libxpurun_glibc.so.
            known = set() if path.name.startswith("libxpurun_") else inside | OF_OLD_GLIBC
            wanted = {name for binding, is_defined, name, version in self.symbols(path)
                      if binding == "GLOBAL" and not is_defined and not version and name}
            self.assertEqual(wanted - known, set(), path.name)
            found |= wanted
        self.assertLessEqual({"gettid", "stat", "_dl_find_object"}, found & defined[FUNCTIONS])

    def test_libc_comes_before_our_functions(self):
        order = ["libpthread.so.0", "libdl.so.2", "libc.so.6", FUNCTIONS]
        programs = [path for path in self.elfs if path.parent.parent.name != "lib"]
        self.assertEqual(len(programs), 3)
        for path in programs:
            self.assertEqual([name for name in self.needed(path) if name in order], order, path)
        library = self.tree / "lib/xpurun/libxpurun_preload.so"
        self.assertEqual(self.needed(library), ["libc.so.6"])
        old = library.with_name("libxpurun_preload.so.glibc-2.28")
        self.assertEqual(self.needed(old), ["libpthread.so.0", "libdl.so.2", "libc.so.6"])
        self.assertEqual(set(self.symbols(old)), set(self.symbols(library)))
        self.assertEqual(self.needed(library.with_name(FUNCTIONS)), ["libc.so.6"])

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

    def with_our_functions(self, *command, **more):
        """A command whose calls go to libxpurun_glibc.so even where libc has the functions."""
        env = {**self.env, "LD_PRELOAD": str(self.tree / "lib/xpurun" / FUNCTIONS), **more}
        return subprocess.run(command, env=env, cwd=self.scratch.name, capture_output=True, text=True, check=False,
                              timeout=60)

    def test_programs_run_with_our_functions(self):
        xpurun = str(self.tree / "bin/xpurun")
        done = self.with_our_functions(xpurun, "--hang-timeout", "soon", "--", "true", LD_DEBUG="bindings")
        # The option is refused by an exception, which the program catches.
        self.assertRegex(done.stderr, rf"binding file {re.escape(xpurun)} .* to .*{FUNCTIONS} .*`_dl_find_object'")
        self.assertIn("xpurun: error: ", done.stderr)
        self.assertEqual(done.returncode, 125, done.stderr[-2000:])
        for name in ("bin/xpurun", "libexec/xpurun/xpurun-stackdump", "libexec/xpurun/xpurun-nodes"):
            plain = self.run_in_scratch(str(self.tree / name))
            ours = self.with_our_functions(str(self.tree / name))
            self.assertEqual((ours.returncode, ours.stdout, ours.stderr),
                             (plain.returncode, plain.stdout, plain.stderr))
        done = self.with_our_functions(xpurun, "--", "sh", "-c", "exit 3")
        self.assertEqual(done.returncode, 3, done.stderr)

    def test_the_programs_start_with_the_old_way_to_constructors(self):
        # An older glibc runs no other constructors than those of the function that the program passes.
        for path in [path for path in self.elfs if path.parent.parent.name != "lib"]:
            versions = {version for _, _, name, version in self.symbols(path) if name == "__libc_start_main"}
            self.assertEqual(versions, {"GLIBC_2.2.5"}, path)


class OldKernelTest(packages.Case):
    def test_a_hang_is_found_and_ended(self):
        with tarfile.open(packages.only("xpurun-*-linux-x86_64.tar.gz")) as packed:
            packed.extractall(self.dir)
        xpurun = next(self.dir.glob("xpurun-*/bin/xpurun"))
        doctor = self.run_in_dir(xpurun, "doctor", preexec_fn=packages.refuse_new_system_calls)
        self.assertIn("has no pidfd", doctor.stdout)
        self.check_hang_of_two(xpurun, "run", preexec_fn=packages.refuse_new_system_calls)


class Info(ctypes.Structure):
    """struct dl_find_object of x86-64."""

    _fields_ = [("flags", ctypes.c_ulonglong), ("start", ctypes.c_void_p), ("end", ctypes.c_void_p),
                ("link_map", ctypes.c_void_p), ("frames", ctypes.c_void_p), ("reserved", ctypes.c_ulonglong * 7)]


class Time(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]


class FunctionsTest(unittest.TestCase):
    """The functions of libxpurun_glibc.so do what those of a newer glibc do."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="xpurun-functions-")
        cls.addClassCleanup(scratch.cleanup)
        with tarfile.open(packages.only("xpurun-*-linux-x86_64.tar.gz")) as packed:
            member = next(name for name in packed.getnames() if name.endswith("/" + FUNCTIONS))
            packed.extract(member, scratch.name)
        cls.ours = ctypes.CDLL(str(pathlib.Path(scratch.name, member)), use_errno=True)
        cls.libc = ctypes.CDLL("libc.so.6", use_errno=True)
        cls.dir = pathlib.Path(scratch.name)

    def test_stat(self):
        (self.dir / "file").write_text("five5")
        (self.dir / "link").symlink_to("file")
        here = os.open(self.dir, os.O_RDONLY)
        self.addCleanup(os.close, here)
        opened = os.open(self.dir / "file", os.O_RDONLY)
        self.addCleanup(os.close, opened)
        link = str(self.dir / "link").encode()
        for size in ("", "64"):
            for name, before, after in (("stat", (link,), ()), ("lstat", (link,), ()), ("fstat", (opened,), ()),
                                        ("fstatat", (here, b"link"), (0,)), ("fstatat", (here, b"link"), (0x100,))):
                results = []
                for library in (self.ours, self.libc):
                    buffer = ctypes.create_string_buffer(144)
                    self.assertEqual(getattr(library, name + size)(*before, buffer, *after), 0, name)
                    results.append(buffer.raw)
                self.assertEqual(*results)
        self.assertEqual(self.ours.stat(b"/nonexistent", ctypes.create_string_buffer(144)), -1)
        self.assertEqual(ctypes.get_errno(), errno.ENOENT)

    def test_signals_have_their_names(self):
        self.ours.sigabbrev_np.restype = ctypes.c_char_p
        self.libc.sigabbrev_np.restype = ctypes.c_char_p
        for number in range(-1, 70):
            self.assertEqual(self.ours.sigabbrev_np(number), self.libc.sigabbrev_np(number), number)
        self.assertEqual(self.ours.sigabbrev_np(signal.SIGSEGV), b"SEGV")

    def test_thread_id(self):
        self.assertEqual(self.ours.gettid(), threading.get_native_id())

    def test_wait_with_a_clock(self):
        condition, mutex = ctypes.create_string_buffer(48), ctypes.create_string_buffer(40)
        self.libc.pthread_mutex_lock(mutex)

        def wait(clock, seconds):
            end = time.clock_gettime_ns(clock) + int(seconds * 1e9)
            until = Time(end // 10**9, end % 10**9)
            result = self.ours.pthread_cond_clockwait(condition, mutex, clock, ctypes.byref(until))
            return result, time.clock_gettime_ns(clock) >= end

        for clock in (time.CLOCK_MONOTONIC, time.CLOCK_REALTIME):
            self.assertEqual(wait(clock, 0.05), (errno.ETIMEDOUT, True))
            self.assertEqual(wait(clock, -1), (errno.ETIMEDOUT, True))
        self.assertEqual(wait(time.CLOCK_MONOTONIC, 1.05), (errno.ETIMEDOUT, True))  # longer than one part
        self.assertEqual(wait(time.CLOCK_THREAD_CPUTIME_ID, 0.05)[0], errno.EINVAL)

        def wake():
            self.libc.pthread_mutex_lock(mutex)  # taken when the other thread waits
            self.libc.pthread_cond_signal(condition)
            self.libc.pthread_mutex_unlock(mutex)

        thread = threading.Thread(target=wake)
        thread.start()
        self.assertEqual(wait(time.CLOCK_MONOTONIC, 60), (0, False))
        self.libc.pthread_mutex_unlock(mutex)
        thread.join()

    def test_object_of_an_address(self):
        for function in (self.ours.gettid, self.libc.getpid):
            address = ctypes.cast(function, ctypes.c_void_p)
            results = []
            for library in (self.ours, self.libc):
                info = Info()
                self.assertEqual(library._dl_find_object(address, ctypes.byref(info)), 0)
                results.append((info.flags, info.start, info.frames))
                self.assertTrue(info.start < address.value < info.end)
            self.assertEqual(*results)
        self.assertEqual(self.ours._dl_find_object(ctypes.c_void_p(16), ctypes.byref(Info())), -1)


if __name__ == "__main__":
    unittest.main()
