"""The files of two reports against golden texts: a hang of two ranks with stacks, and a run that was recorded on GPUs.

usage: output_golden_test.py REPORT_TOOL MAKE_RUN.py

XPURUN_TEST_ACCEPT=1 writes tests/golden/hang and tests/golden/recorded.
"""

import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

import golden_files

MAKE_RUN, TOOL = sys.argv.pop(), sys.argv.pop()
RECORDED = golden_files.SOURCE / "tests/data/gpu_runs/nothing-slow.tar.xz"


class OutputGoldens(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def report(self, run):
        subprocess.run([TOOL, "report", run], check=True)

    def text(self, path):
        text = path.read_text().replace(str(path.parent), "RUN").replace(str(self.dir), "DIR")
        return re.sub(r'(xpurun |"version": ")\d+\.\d+\.\d+', r"\1VERSION", text)

    def expect(self, name, text):
        golden_files.expect(self, name, text)

    def test_hang(self):
        run = self.dir / "run"
        subprocess.run([sys.executable, MAKE_RUN, run, "--ranks", "2", "--culprit", "1"], check=True)
        self.report(run)
        self.expect("hang/verdict.json", self.text(run / "verdict.json"))
        self.expect("hang/report.json", self.text(run / "report.json"))
        self.expect("hang/merged.svg", golden_files.boxes((run / "stacks/merged.svg").read_text()))
        self.expect("hang/page.txt", golden_files.outline(self.text(run / "report.html")))

    def test_recorded(self):
        with tarfile.open(RECORDED) as archive:
            archive.extractall(self.dir)
        run = self.dir / "nothing-slow"
        self.report(run)
        self.expect("recorded/verdict.json", self.text(run / "verdict.json"))
        self.expect("recorded/report.json", golden_files.json_text(json.loads(self.text(run / "report.json")), most=2))
        self.expect("recorded/page.txt", golden_files.outline(self.text(run / "report.html")))


if __name__ == "__main__":
    golden_files.main()
