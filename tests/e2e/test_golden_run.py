"""run.json and verdict.json of a real run of three ranks, one with an exception, against tests/golden/run.

Compared are the members of run.json with their types, and the facts of verdict.json that do not depend on when xpurun
looked at the ranks. XPURUN_TEST_ACCEPT=1 writes the goldens.
"""

import json
import re

import golden_files
import xpurun_test
from xpurun_test import PYTHON, SOURCE

JOB = SOURCE / "tests/e2e/jobs/small_launcher.py"
# Present or absent, depending on the moments at which xpurun looked at the ranks and the launcher ended them.
BY_CHANCE = {"still", "function", "file", "line", "callee", "place", "crashes", "dumps", "memory",
             "rss_bytes"}
FACTS = ("schema", "id", "kind", "level", "ranks", "state", "exit_code", "sentence", "headline", "where", "waiting",
         "confidence", "exception", "log_tail", "next", "next_text", "next_command")


def members(value, path=""):
    """A line for each member at any depth, with its type; the elements of an array share their lines."""
    if isinstance(value, dict):
        kept = {name: inner for name, inner in value.items() if name not in BY_CHANCE}
        return {line for name, inner in kept.items() for line in members(inner, f"{path}.{name}")}
    if isinstance(value, list):
        return {f"{path}: array"} | {line for inner in value for line in members(inner, path + "[]")}
    kind = {bool: "boolean", int: "number", float: "number", str: "string", type(None): "null"}[type(value)]
    return {f"{path}: {kind}"}


class GoldenRun(xpurun_test.Case):
    def words(self, text):
        """Without the names and times of this run."""
        for pattern, word in ((re.escape(str(self.dir)), "DIR"), (re.escape(str(SOURCE)), "SOURCE"),
                              (r"\d{4}-\d\d-\d\dT[\d:]+Z", "DATE"), (r"\d\d:\d\d:\d\d(\.\d+)?", "TIME"),
                              (r"\d+(\.\d+)? m?s\b", "N s")):
            text = re.sub(pattern, word, text)
        # Whether the launcher has ended the others when the verdict is made is chance.
        return re.sub(r"; ranks 0,2 were ended after it", "", text)

    def test_exception(self):
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.dir), "LANG": "C.UTF-8", "XPURUN_E2E": str(self.dir)}
        result = self.run_xpurun("--poll", "200ms", "--", PYTHON, JOB, "exception", self.dir, env=env)
        self.assertEqual(result.returncode, 1, result.stderr)
        run = json.loads((self.out / "run.json").read_text())
        golden_files.expect(self, "run/run.txt", "\n".join(sorted(members(run))) + "\n")
        verdict = json.loads((self.out / "verdict.json").read_text())
        facts = json.dumps({name: verdict.get(name) for name in FACTS}, indent=1)
        golden_files.expect(self, "run/verdict.json", self.words(facts) + "\n")


if __name__ == "__main__":
    golden_files.main()
