"""The report of a run with its source, who may read it, and how it is given away: as Markdown and over HTTP."""

import json
import re
import shutil
import stat
import urllib.error
import urllib.request

import xpurun_test

PROGRAM = """import os
API_KEY = "sk-not-for-anybody"
def pick(record):
    return record["label"]
pick({"image": os.getpid()})
"""


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


class ReportPage(xpurun_test.Case):
    def fail_once(self, *options):
        program = self.dir / "train.py"
        program.write_text(PROGRAM)
        done = self.run_xpurun("--name", "two words", *options, "--", "/usr/bin/python3", program,
                               env=self.env(RANK="0", WORLD_SIZE="1"))
        self.assertEqual(done.returncode, 1, done.stderr)
        return program

    def report(self, *options):
        done = self.run_xpurun("report", *options, self.out, out=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_source_lines_are_those_of_the_run(self):
        program = self.fail_once()
        program.unlink()
        self.report("--quiet")
        excerpt = json.loads((self.out / "report.json").read_text())["source"][0]
        self.assertEqual((excerpt["file"], excerpt["line"]), (str(program), 4))
        self.assertIn('    return record["label"]', [line["text"] for line in excerpt["lines"]])
        page = (self.out / "report.html").read_text()
        self.assertIn("return record[&quot;label&quot;]", page)
        self.assertNotIn("sk-not-for-anybody", page + (self.out / "source.json").read_text())
        self.assertIn('> ', self.report())

    def test_no_source(self):
        self.fail_once("--no-source")
        self.assertFalse((self.out / "source.json").exists())
        self.assertNotIn("API_KEY", (self.out / "report.html").read_text())
        self.report("--quiet", "--source")
        self.assertIn("API_KEY", (self.out / "report.html").read_text())
        self.report("--quiet", "--no-source")
        self.assertNotIn("API_KEY", (self.out / "report.html").read_text())

    def test_markdown(self):
        self.fail_once()
        text = self.report("--format", "markdown")
        self.assertRegex(text, r"^\*\*exception: rank 0 .*KeyError")
        self.assertIn('>    4      return record["label"]', text)
        self.assertIn("Traceback (most recent call last):", text)
        mailed = self.dir / "mailed.html"
        shutil.copy(self.out / "report.html", mailed)
        again = self.run_xpurun("report", "--from", mailed, "--format=markdown", out=False)
        self.assertEqual(again.stdout, text)

    def test_private_unless_shared(self):
        self.fail_once()
        self.assertEqual((mode(self.out), mode(self.out / "report.html")), (0o700, 0o600))
        self.report("--quiet", "--share", "group")
        for name in ("report.html", "report.json", "verdict.json"):
            self.assertEqual(mode(self.out / name), 0o640, name)
        self.assertEqual(mode(self.out), 0o750)
        for name in ("run.json", "xpurun.log", "source.json"):
            self.assertEqual(mode(self.out / name), 0o600, name)

    def test_a_run_can_share_its_report(self):
        self.fail_once("--share", "group")
        self.assertEqual((mode(self.out), mode(self.out / "report.html")), (0o750, 0o640))

    def test_wrong_values(self):
        for options, word in ((("--share", "world"), "private, group"), (("--format", "pdf"), "text, json, markdown"),
                              (("--port", "99999"), "port")):
            done = self.run_xpurun("report", *options, self.dir, out=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(word, done.stderr)

    def get(self, url):
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.headers["Content-Type"], e.read().decode()

    def test_serve(self):
        self.fail_once()
        server = self.start_xpurun("report", "--serve", "--port", "21890", self.out, out=False)
        text = ""
        while "Ctrl-C" not in text:
            line = server.stdout.readline()
            self.assertTrue(line, text)
            text += line if isinstance(line, str) else line.decode()
        url = re.search(r"http://127\.0\.0\.1:(\d+)/[0-9a-f]{32}/", text)
        self.assertIsNotNone(url, text)
        self.assertIn(f"ssh -L {url[1]}:127.0.0.1:{url[1]} ", text)
        page = (self.out / "report.html").read_text()
        self.assertEqual(self.get(url[0]), (200, "text/html; charset=utf-8", page))
        self.assertEqual(self.get(url[0] + "report.html")[2], page)
        for wrong in (f"http://127.0.0.1:{url[1]}/", f"http://127.0.0.1:{url[1]}/{'0' * 32}/", url[0] + "run.json",
                      url[0] + "../run.json"):
            status, _, said = self.get(wrong)
            self.assertEqual(status, 404, wrong)
            self.assertNotIn("KeyError", said)
        server.terminate()
        server.wait(timeout=20)


if __name__ == "__main__":
    xpurun_test.main()
