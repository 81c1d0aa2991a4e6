"""run.json and verdict.json of a real run of three ranks, one with an exception, against tests/golden/run.

What differs from run to run and from machine to machine is replaced by words first. XPURUN_TEST_ACCEPT=1 writes the
goldens.
"""

import json
import os
import re
import socket

import golden_files
import xpurun_test
from xpurun_test import PYTHON, SOURCE

JOB = SOURCE / "tests/e2e/jobs/small_launcher.py"
# In seconds or of this run, and so different in each run.
NUMBERS = {"seconds", "started_wall_ns", "wall_ns", "pid", "ppid", "tid", "supervisor_pid", "main_pid", "start_ticks",
           "end", "sender"}
SETTINGS = {"hang_timeout_s"}
# Of a process when it was looked at last, perhaps while it ended.
POSITION = ("function", "file", "line", "place")


class GoldenRun(xpurun_test.Case):
    def words(self, text):
        """Without the names and times of this run."""
        build = os.environ.get("XPURUN_TEST_BUILD", "/nonexistent")
        for pattern, word in ((re.escape(str(self.dir)), "DIR"), (re.escape(build), "BUILD"),
                              (re.escape(str(SOURCE)), "SOURCE"), (rf"\b{re.escape(socket.gethostname())}\b", "HOST"),
                              (r"\d{4}-\d\d-\d\dT[\d:]+Z", "DATE"), (r"\d\d:\d\d:\d\d(\.\d+)?", "TIME"),
                              (r"pid \d+", "pid N"), (r"\d+(\.\d+)? m?s\b", "N s"), (r"using \d+ %", "using N %"),
                              (r"(127\.0\.0\.1):\d+", r"\1:PORT"), (r"python3\.\d+", "python3"),
                              (r"(innermost C function of rank \d+:) .*", r"\1 F")):
            text = re.sub(pattern, word, text)
        return text

    def without_details(self, value, name=""):
        if isinstance(value, dict):
            if "role" in value:
                value = {k: v for k, v in value.items() if k not in POSITION}
            if value.get("follower"):
                value = {**value, "order": "after the first"}  # the launcher ends both at once
            return {k: self.without_details(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [self.without_details(v, name) for v in value]
        if isinstance(value, str):
            return "VERSION" if name == "version" else self.words(value)
        changes = name in NUMBERS or (name.endswith("_s") and name not in SETTINGS)
        return "N" if changes and value is not None and value != -1 else value

    def expect(self, name):
        found = self.without_details(json.loads((self.out / name).read_text()))
        found.get("crashes", []).sort(key=lambda crash: crash["rank"])
        golden_files.expect(self, "run/" + name, json.dumps(found, indent=1) + "\n")

    def test_exception(self):
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.dir), "LANG": "C.UTF-8", "XPURUN_E2E": str(self.dir)}
        result = self.run_xpurun("--poll", "200ms", "--", PYTHON, JOB, "exception", self.dir, env=env)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.expect("run.json")
        self.expect("verdict.json")


if __name__ == "__main__":
    golden_files.main()
