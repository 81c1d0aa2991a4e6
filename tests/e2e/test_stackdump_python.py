"""What a dump says about Python, compared with what each interpreter of this machine says about itself."""

import json
import os
import subprocess
import tempfile
import unittest

from stackdump_live import Dump, Target, markers, on_every_python, python_frames, scene


LINE_TABLE_PROBE = os.environ["XPURUN_LINE_TABLE_PROBE"]
REFERENCE = os.path.join(os.environ["XPURUN_TEST_SOURCE"], "tests/support/line_table_reference.py")


def place(frame):
    return [frame["func"], frame.get("file", "")] + [frame.get(k, 0) for k in
                                                    ("line", "column", "end_line", "end_column")]


class LineTables(unittest.TestCase):
    @on_every_python
    def test_every_instruction_of_the_standard_library(self, version, path):
        with tempfile.TemporaryDirectory(prefix="xpurun-lines-") as d:
            modules = subprocess.run([path, "-W", "ignore", REFERENCE, f"{d}/tables"], capture_output=True, text=True)
            self.assertEqual(modules.returncode, 0, modules.stderr)
            self.assertGreater(int(modules.stdout), 150)
            probe = subprocess.run([LINE_TABLE_PROBE, f"{d}/tables"], capture_output=True, text=True)
        self.assertEqual(probe.returncode, 0, probe.stderr)
        instructions, wrong = map(int, probe.stdout.split())
        self.assertGreater(instructions, 300_000)
        self.assertEqual(wrong, 0, f"{version}: {probe.stderr}")


class Scene(unittest.TestCase):
    @on_every_python
    def test_every_thread_stands_where_the_interpreter_says(self, version, path):
        with Target(scene(), path, name="Пример 𝒟/naïve.py") as t:
            told = json.loads(t.first_line)
            d = Dump(t.pid)
        self.assertEqual((d.rc, d.json["status"]), (0, "ok"), d.stderr)
        self.assertTrue(told["version"].startswith(d.json["python_version"]), d.json["python_version"])
        by_name = {x.get("python_name"): x for x in d.json["threads"]}
        self.assertEqual(set(by_name) - {None},
                         {"MainThread", "naïve", "глубоко", "too 𐐼eep", "loop", "values", "observer"})
        self.assertTrue(by_name["MainThread"]["main"])
        for want in told["threads"]:
            with self.subTest(thread=want["name"]):
                got = by_name[want["name"]]
                frames = [place(f) for f in python_frames(got)]
                if want["name"] == "too 𐐼eep":
                    self.assertEqual(frames, want["frames"][:2048])
                    self.assertIn("[Python frames end here: more frames than are shown]", markers(got))
                else:
                    self.assertEqual(frames, want["frames"])
                    if want["name"] != "глубоко":  # more native frames than are shown
                        self.assertEqual(markers(got), [])
                self.assertNotIn("gil", got)
        # The one without Python.
        plain = [x for x in d.json["threads"] if "python_name" not in x]
        self.assertEqual(len(plain), 1)
        self.assertEqual(python_frames(plain[0]), [])
        self.assertEqual(d.json["interpreters"], [{"id": 0}])


if __name__ == "__main__":
    unittest.main()
