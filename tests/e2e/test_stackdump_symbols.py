"""Names, lines and inlined functions: their sources, and the symbol cache."""

import os
import socket
import subprocess
import tempfile
import unittest

from stackdump_live import Dump, Program, names, need

SOURCE = """\
#include <stdio.h>
#include <unistd.h>
volatile int zero;
namespace deep {
static inline __attribute__((always_inline)) void innermost(int n) {
  for (;;) pause();
  zero = n;
}
static inline __attribute__((always_inline)) void between(int n) {
  innermost(n + 1);
  zero = n;
}
}  // namespace deep
static __attribute__((noinline)) void outer(int n) {
  deep::between(n);
  zero = n;
}
int main() {
  puts("ready");
  fflush(stdout);
  outer(1);
  return zero;
}
"""
LINES = [("deep::innermost", 6, True), ("deep::between", 10, True), ("outer", 15, False), ("main", 21, False)]


def built_with_libdw():
    with Program("sh", "-c", "echo ready; exec sleep 60") as p:
        return not any("libdw" in n for n in Dump(p.pid, "--unwinder", "libdw").json.get("notes", []))


def own_frames(dump, module):
    return [
        (f["func"], f.get("line", 0), f.get("inlined", False)) for f in dump.main["frames"] if f.get("module") == module
    ]


class Symbols(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for tool in ("g++", "objcopy", "readelf"):
            need(tool)
        cls.folder = tempfile.TemporaryDirectory(prefix="xpurun-symbols-")
        cls.dir = cls.folder.name
        cls.source = os.path.join(cls.dir, "inlined.cpp")
        with open(cls.source, "w") as f:
            f.write(SOURCE)
        cls.program = os.path.join(cls.dir, "inlined")
        subprocess.run(["g++", "-g", "-O2", "-Wl,--build-id", "-o", cls.program, cls.source], check=True)
        cls.stripped = os.path.join(cls.dir, "stripped")
        subprocess.run(["objcopy", "--strip-all", cls.program, cls.stripped], check=True)
        cls.debug = os.path.join(cls.dir, "debug.file")
        subprocess.run(["objcopy", "--only-keep-debug", cls.program, cls.debug], check=True)
        notes = subprocess.run(["readelf", "-nW", cls.program], capture_output=True, text=True, check=True).stdout
        cls.build_id = notes.split("Build ID:")[1].split()[0]
        cls.lines = built_with_libdw()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def assert_lines(self, dump, module):
        self.assertEqual(dump.json["status"], "ok", dump.stderr)
        expected = LINES if self.lines else [(n, 0, False) for n, _, inlined in LINES if not inlined]
        self.assertEqual(own_frames(dump, module)[:len(expected)], expected, dump.json.get("notes"))
        if self.lines:
            at = names(dump.main).index("outer")
            self.assertEqual(dump.main["frames"][at]["file"], self.source)

    def test_debug_information_in_the_program(self):
        with Program(self.program) as p:
            self.assert_lines(Dump(p.pid), "inlined")
            self.assert_lines(Dump(p.pid, "--unwinder", "libdw"), "inlined")
            d = Dump(p.pid, "--lines-ms", "0")
            self.assertEqual(own_frames(d, "inlined")[:2], [("outer", 0, False), ("main", 0, False)])

    def test_stripped_program_has_offsets(self):
        with Program(self.stripped) as p:
            d = Dump(p.pid)
        self.assertRegex(own_frames(d, "stripped")[0][0], r"^stripped\+0x[0-9a-f]+$")

    def test_debug_file_by_build_id(self):
        with tempfile.TemporaryDirectory() as symbols:
            folder = os.path.join(symbols, ".build-id", self.build_id[:2])
            os.makedirs(folder)
            os.symlink(self.debug, os.path.join(folder, self.build_id[2:] + ".debug"))
            with Program(self.stripped) as p:
                self.assert_lines(Dump(p.pid, "--symbols", symbols), "stripped")

    def test_debug_file_by_link(self):
        with tempfile.TemporaryDirectory() as d:
            program = os.path.join(d, "linked")
            debug = os.path.join(d, "linked.debug")
            # Without a build id only the checksum shows that the files belong together.
            subprocess.run(["g++", "-g", "-O2", "-Wl,--build-id=none", "-o", program, self.source], check=True)
            subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
            subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", program], check=True)
            with Program(program) as p:
                self.assert_lines(Dump(p.pid, "--symbol-cache", "none"), "linked")
                with open(debug, "ab") as f:
                    f.write(b"another file")
                other = Dump(p.pid, "--symbol-cache", "none")
            self.assertRegex(own_frames(other, "linked")[0][0], r"^linked\+0x")

    def test_lines_take_no_longer_than_they_may(self):
        if not self.lines:
            self.skipTest("built without libdw")
        with Program(self.program) as p:
            d = Dump(p.pid, "--lines-ms", "1")
        self.assertEqual(d.json["status"], "ok")
        self.assertIn(("outer", 0, False), [(f[0], 0, f[2]) for f in own_frames(d, "inlined")])

    def test_no_server_is_asked(self):
        server = socket.create_server(("127.0.0.1", 0))
        server.settimeout(0.2)
        self.addCleanup(server.close)
        env = {**os.environ, "DEBUGINFOD_URLS": f"http://127.0.0.1:{server.getsockname()[1]}",
               "DEBUGINFOD_CACHE_PATH": self.dir}
        for unwinder in ("own", "libdw", "gdb"):
            if unwinder == "gdb":
                need("gdb")
            with Program(self.stripped) as p:
                self.assertEqual(Dump(p.pid, "--unwinder", unwinder, env=env).rc, 0)
            with self.assertRaises(socket.timeout, msg=unwinder):
                server.accept()


class Cache(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="xpurun-cache-")
        self.addCleanup(self.folder.cleanup)
        self.env = {**os.environ, "XDG_CACHE_HOME": self.folder.name}
        self.sym = os.path.join(self.folder.name, "xpurun/sym")

    def test_filled_used_and_repaired(self):
        with Program("sh", "-c", "echo ready; exec sleep 60") as p:
            cold = Dump(p.pid, env=self.env)
            files = os.listdir(self.sym)
            self.assertTrue(any(f.endswith(".sym") for f in files))
            self.assertFalse(any(".tmp" in f for f in files))
            self.assertEqual(os.stat(self.sym).st_mode & 0o777, 0o700)
            self.assertEqual(names(Dump(p.pid, env=self.env).main), names(cold.main))
            # The dump shows the modified name, so the cache was read.
            libc = next(f for f in cold.main["frames"] if f["module"].startswith("libc.so"))
            path = next(os.path.join(self.sym, f) for f in files if f.startswith(libc["build_id"]))
            with open(path, "r+b") as f:
                content = f.read()
                f.seek(0)
                f.write(content[:-3] + b"XYZ")
            self.assertEqual(names(Dump(p.pid, env=self.env).main), names(cold.main))
            with open(path, "rb") as f:
                self.assertEqual(f.read(), content)

    def test_no_home(self):
        with Program("sh", "-c", "echo ready; exec sleep 60") as p:
            expected = names(Dump(p.pid, env=self.env).main)
            for cache in ("/proc/nowhere", "relative", ""):
                d = Dump(p.pid, env={**os.environ, "XDG_CACHE_HOME": cache, "HOME": "/proc/nowhere"})
                self.assertEqual(d.json["status"], "ok", d.stderr)
                self.assertEqual(names(d.main), expected)


if __name__ == "__main__":
    unittest.main()
