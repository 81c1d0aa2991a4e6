"""Unwinding of difficult programs, each compared with elfutils' libdw on the same kind of snapshot."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

from stackdump_live import ANY_PYTHON, Dump, Program, Target, markers, names, need

VICTIM = os.path.join(os.environ["XPURUN_TEST_SOURCE"], "tests/e2e/victims/unwind.cpp")
CHAIN = ["wait_here", "variable_frame", "compare"]
DEPTH = 13  # Deep<12>::go to Deep<0>::go


def native(thread):
    return [f for f in thread["frames"] if f["kind"] == "native" and not f.get("inlined")]


def has_libdw():
    with Program("sh", "-c", "echo ready; exec sleep 60") as p:
        return not any("libdw" in n for n in Dump(p.pid, "--unwinder", "libdw").json.get("notes", []))


class CrossCheck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need("g++")
        if not has_libdw():
            raise unittest.SkipTest("no libdw here")
        cls.dir = tempfile.mkdtemp(prefix="xpurun-unwind-")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir, ignore_errors=True)

    def build(self, name, *flags, source=VICTIM):
        out = os.path.join(self.dir, name)
        subprocess.run(["g++", "-std=c++20", "-w", "-pthread", "-o", out, source, *flags], check=True)
        return out

    def assert_engines_agree(self, pid):
        own, libdw = Dump(pid), Dump(pid, "--unwinder", "libdw")
        for d in (own, libdw):
            self.assertEqual(d.json["status"], "ok", d.stderr)
        other = {t["tid"]: t for t in libdw.json["threads"]}
        self.assertEqual(len(own.json["threads"]), len(other))
        for t in own.json["threads"]:
            with self.subTest(thread=t["comm"]):
                self.assertEqual([f["pc"] for f in native(t)], [f["pc"] for f in native(other[t["tid"]])],
                                 f"{names(t)}\n{names(other[t['tid']])}")
                self.assertEqual(markers(t), [])
        return own

    def check(self, program, named=True, compare=True):
        with Program(program) as p:
            self.assertEqual(p.first_line, "ready")
            d = self.assert_engines_agree(p.pid) if compare else Dump(p.pid)
        self.assertEqual(len(d.json["threads"]), 5)
        if named:
            self.assertEqual(names(d.main)[1:4], CHAIN)
            self.assertEqual(sum(n.startswith("Deep") for n in names(d.main)), DEPTH, names(d.main))
            by_signal = next(t for t in d.json["threads"] if "in_handler" in names(t))
            self.assertIn("interrupted", names(by_signal))
        for t in d.json["threads"]:
            self.assertGreater(len(native(t)), 8)
        return d

    def test_link_time_optimised(self):
        need("gcc")
        self.check(self.build("lto", "-O3", "-flto"))

    def test_linked_by_lld_without_frame_pointer(self):
        need("ld.lld")
        self.check(self.build("lld", "-O2", "-fuse-ld=lld", "-fomit-frame-pointer"))

    def test_library_linked_by_lld(self):
        # Its text segment is shifted relative to the file, which libunwind's own lookup does not support.
        need("ld.lld")
        self.build("libvictim.so", "-O2", "-fuse-ld=lld", "-shared", "-fPIC", "-DLIBRARY")
        host = os.path.join(self.dir, "host.cpp")
        with open(host, "w") as f:
            f.write('extern "C" int run_victim(); int main() { return run_victim() + 1; }\n')
        self.check(self.build("host", "-O2", f"-L{self.dir}", "-lvictim", f"-Wl,-rpath,{self.dir}", source=host))

    def test_stripped(self):
        program = self.build("stripped", "-O2", "-s")
        d = self.check(program, named=False)
        self.assertRegex(names(d.main)[1], r"^stripped\+0x[0-9a-f]+$")

    def test_without_search_table(self):
        need("objcopy")
        program = self.build("whole", "-O2")
        removed = os.path.join(self.dir, "removed")
        subprocess.run(["objcopy", "--remove-section=.eh_frame_hdr", program, removed], check=True)
        self.check(removed)

    def test_with_unusable_search_table(self):
        need("readelf")
        for byte in (0xff, 0x3c):  # omitted; eight bytes per entry
            program = self.build(f"table{byte}", "-O2")
            out = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True).stdout
            offset = int(re.search(r"\.eh_frame_hdr\s+PROGBITS\s+\w+\s+(\w+)", out).group(1), 16)
            with open(program, "r+b") as f:
                f.seek(offset + 3)
                f.write(bytes([byte]))
            with self.subTest(encoding=byte):
                self.check(program, compare=byte == 0xff)  # libdw trusts the encoding of the other one

    def test_two_text_segments(self):
        program = self.build("far", "-O2", "-DSECOND_SEGMENT", "-Wl,--section-start=.text_far=0x900000")
        headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
        self.assertGreaterEqual(len(re.findall(r"LOAD.* R E ", headers)), 2, headers)
        self.check(program)

    def test_debug_frame(self):
        flags = ["-O2", "-g1", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-exceptions",
                 "-fno-unwind-tables"]
        program = self.build("debug_frame", *flags)
        sections = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True).stdout
        self.assertIn(".debug_frame", sections)
        self.check(program)
        # The same in a separate file, found by its name in .gnu_debuglink.
        need("objcopy")
        debug = program + ".debug"
        subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
        subprocess.run(["objcopy", "--strip-debug", f"--add-gnu-debuglink={debug}", program], check=True)
        self.check(program)

    def test_frame_pointers_alone(self):
        program = self.build("pointers", "-O2", "-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables",
                             "-fno-exceptions", "-fno-unwind-tables")
        with Program(program) as p:
            d = Dump(p.pid)
        self.assertEqual(names(d.main)[1:4], CHAIN)

    def test_no_information_at_all(self):
        program = self.build("nothing", "-O2", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables",
                             "-fno-exceptions", "-fno-unwind-tables")
        with Program(program) as p:
            d = Dump(p.pid)
        self.assertEqual(names(d.main)[1], "wait_here")
        self.assertEqual(len(markers(d.main)), 1)
        self.assertIn("unwind stopped: no unwind information", markers(d.main)[0])

    def test_python_with_torch(self):
        with Target("""
            import threading, time
            import numpy
            try:
                import torch
                torch.set_num_threads(2)
                x = torch.ones(64, 64, requires_grad=True)
                (x @ x).sum().backward()
            except ImportError:
                pass
            for _ in range(5):
                threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
            def key(n):
                print("ready", flush=True)
                time.sleep(1000)
            numpy.apply_along_axis(lambda row: sorted(row, key=key), 0, numpy.ones((4, 4)))
        """, python=ANY_PYTHON) as t:
            if t.first_line != "ready":
                self.skipTest("no numpy")
            self.assert_engines_agree(t.pid)


class Places(unittest.TestCase):
    """Code whose file is not found under its name."""

    def test_other_mount_namespace(self):
        need("unshare")
        need("g++")
        if os.geteuid() != 0:
            self.skipTest("needs root")
        with tempfile.TemporaryDirectory() as d:
            subprocess.run(["g++", "-std=c++20", "-w", "-O2", "-pthread", "-o", f"{d}/victim", VICTIM], check=True)
            os.mkdir(f"{d}/hidden")
            script = f"mount -t tmpfs none {d}/hidden && cp {d}/victim {d}/hidden/v && exec {d}/hidden/v"
            with Program("unshare", "-m", "sh", "-c", script) as p:
                if p.first_line != "ready":
                    self.skipTest("no mount namespaces here")
                self.assertFalse(os.path.exists(f"{d}/hidden/v"))
                dump = Dump(p.pid)
        self.assertEqual(names(dump.main)[1:4], CHAIN)
        self.assertEqual(markers(dump.main), [])

    def test_vdso(self):
        with Target("""
            import time
            print("ready", flush=True)
            while True:
                for _ in range(1000):
                    time.monotonic()
        """) as t:
            for _ in range(40):
                d = Dump(t.pid)
                self.assertEqual(markers(d.main), [])
                if d.main["frames"][0].get("module") == "[vdso]":
                    self.assertIn("clock_gettime", d.main["frames"][0]["func"])
                    return
        self.skipTest("never met in the vdso")


if __name__ == "__main__":
    unittest.main()
