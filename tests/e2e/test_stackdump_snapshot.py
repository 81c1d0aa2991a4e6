"""Snapshots: memory copied from a process, resolved again without the process."""

import os
import shutil
import subprocess
import tempfile
import unittest

import stack_files
from stackdump_live import ANY_PYTHON, STACKDUMP, Program, Target, markers, names, need, on_every_python, python_frames

VICTIM = os.path.join(os.environ["XPURUN_TEST_SOURCE"], "tests/e2e/victims/unwind.cpp")


class Snapshot:
    """A dump of a process with its snapshot, in a separate folder."""

    def __init__(self, case, pid, *extra):
        self.folder = tempfile.TemporaryDirectory(prefix="xpurun-snapshot-")
        case.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "0.snapshot")
        self.live = self.run("--pid", str(pid), "--deadline-ms", "2000", "--snapshot", self.path, *extra)

    def run(self, *args):
        out = os.path.join(self.folder.name, "x.json")
        self.done = subprocess.run([STACKDUMP, "--out", out, *args], capture_output=True, text=True, timeout=60)
        if not os.path.exists(out):
            return None
        result = stack_files.read(out)
        os.unlink(out)
        return result

    def again(self, *args):
        return self.run("--from-snapshot", self.path, *args)


def main_of(stacks):
    return next(t for t in stacks["threads"] if t["main"])


class Snapshots(unittest.TestCase):
    @on_every_python
    def test_the_same_stacks_again(self, version, path):
        with Target("""
            import threading, time
            def inner(n):
                if n == 0:
                    print("ready", flush=True)
                    time.sleep(1000)
                inner(n - 1)
            threading.Thread(target=time.sleep, args=(1000,), name="ein Fädchen", daemon=True).start()
            list(map(lambda n: inner(n), [3]))
        """, python=path) as t:
            s = Snapshot(self, t.pid)
        again = s.again()
        self.assertEqual(s.done.returncode, 0, s.done.stderr)
        self.assertEqual(again, s.live)
        self.assertEqual([f["func"] for f in python_frames(main_of(again))].count("inner"), 4)
        self.assertEqual(os.stat(s.path).st_mode & 0o777, 0o600)

    def test_stripped_here_with_symbols_elsewhere(self):
        for tool in ("g++", "objcopy"):
            need(tool)
        with tempfile.TemporaryDirectory() as d:
            whole, bare = os.path.join(d, "whole"), os.path.join(d, "bare")
            subprocess.run(
                ["g++", "-std=c++20", "-w", "-O2", "-pthread", "-Wl,--build-id", "-o", whole, VICTIM], check=True
            )
            subprocess.run(["objcopy", "--strip-all", whole, bare], check=True)
            with Program(bare) as p:
                s = Snapshot(self, p.pid)
            self.assertRegex(names(main_of(s.live))[1], r"^bare\+0x")
            os.mkdir(f"{d}/symbols")
            os.rename(whole, f"{d}/symbols/bare")
            # Another build under the same name is refused, and the missing file is named.
            shutil.copy(shutil.which("sleep"), bare)
            missing = s.again()
            self.assertEqual(names(main_of(missing)), names(main_of(s.live)))
            self.assertTrue(any("bare is another build" in n for n in missing["notes"]), missing["notes"])
            found = s.again("--symbols", f"{d}/symbols")
            self.assertNotIn("notes", found)
            self.assertEqual(names(main_of(found))[1:4], ["wait_here", "variable_frame", "compare"])
            self.assertEqual([f["pc"] for f in main_of(found)["frames"]], [f["pc"] for f in main_of(s.live)["frames"]])
            # As part of a file system of another host.
            os.unlink(bare)
            root = f"{d}/root"
            with open("/proc/self/maps") as f:
                mapped = f.read().splitlines()
            for f in {f["module"]: f for f in main_of(s.live)["frames"]}.values():
                real = f"{d}/symbols/bare" if f["module"] == "bare" else None
                for line in mapped:
                    if line.endswith("/" + f["module"]):
                        real = line.split()[-1]
                if real:
                    place = root + (bare if f["module"] == "bare" else real)
                    os.makedirs(os.path.dirname(place), exist_ok=True)
                    shutil.copy(real, place)
            self.assertEqual(
                names(main_of(s.again("--sysroot", root)))[1:4], ["wait_here", "variable_frame", "compare"]
            )
            nothing = s.again("--sysroot", "/nowhere")
            self.assertEqual(names(main_of(nothing)), names(main_of(s.live)))
            self.assertTrue(any("not here" in n for n in nothing["notes"]))

    def test_other_engine(self):
        with Target("import time\nprint('ready', flush=True)\ntime.sleep(1000)", python=ANY_PYTHON) as t:
            s = Snapshot(self, t.pid)
        libdw = s.again("--unwinder", "libdw")
        if any("libdw" in n for n in libdw.get("notes", [])):
            self.skipTest("no libdw here")
        self.assertEqual([f["func"] for f in main_of(libdw)["frames"]], names(main_of(s.live)))
        self.assertEqual(markers(main_of(libdw)), [])

    def test_damage_is_refused(self):
        with Program("sh", "-c", "echo ready; exec sleep 60") as p:
            s = Snapshot(self, p.pid)
        with open(s.path, "rb") as f:
            whole = f.read()
        flipped = whole[:200] + bytes([whole[200] ^ 1]) + whole[201:]
        for damaged in (b"", whole[:30], whole[:-1], flipped, b"{}" * 100):
            with open(s.path, "wb") as f:
                f.write(damaged)
            self.assertIsNone(s.again())
            self.assertEqual(s.done.returncode, 1)
            self.assertIn("snapshot", s.done.stderr)


if __name__ == "__main__":
    unittest.main()
