"""The command line of the built program: the child's words, sources of options, messages for wrong usage."""

import json
import os
import pathlib
import subprocess

import xpurun_test
from xpurun_test import PROGRAM, PYTHON

SHOW_ARGV = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"


class CommandLine(xpurun_test.Case):
    def setUp(self):
        super().setUp()
        (self.dir / "home").mkdir()
        self.clean = {k: v for k, v in self.env().items() if not k.startswith("XPURUN_") or k == "XPURUN_E2E"}
        self.clean |= {"HOME": str(self.dir / "home"), "COLUMNS": "80"}
        self.clean.pop("XDG_CONFIG_HOME", None)

    def xpurun(self, *args, **env):
        return self.run_xpurun(*args, out=False, env={**self.clean, **env})

    def check_error(self, result, status, *lines):
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.splitlines(), list(lines))

    def test_the_childs_words_arrive_byte_for_byte(self):
        words = ["-v", "--lr", "0.1", "--x=--", "--", "y", "--hang-timeout", "3", "", "a b", "\udcff\n"]
        for ours in (["--"], [], ["run"], ["run", "--"], ["-q", "--grace", "3s", "--"]):
            with self.subTest(ours=ours):
                command = [PROGRAM, *ours, PYTHON, "-c", SHOW_ARGV, *words]
                result = subprocess.run(command, capture_output=True, cwd=self.dir, env=self.clean, timeout=60)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stdout.split(b"\0"), [os.fsencode(word) for word in words])

    def test_no_name_drives_the_terminal(self):
        hostile = "runs\x1b[31m\u202e\u2066\u200b"
        wrong = [self.xpurun("report", hostile), self.xpurun("stacks", hostile), self.xpurun(hostile),
                 self.xpurun("--runs-dir", "/proc/" + hostile, "--", "true")]
        ended = self.xpurun("--runs-dir", hostile, "--", PYTHON, "-c", "import os; os.kill(os.getpid(), 11)")
        for result in (*wrong, ended):
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("runs?[31m???" if result is not wrong[2] else "xpurun", result.stderr)
            self.assertNotRegex(result.stderr, "[\x1b\u202e\u2066\u200b]")

    def test_help_and_version(self):
        golden = xpurun_test.SOURCE / "tests" / "golden" / "help"
        for args, name in (([], "overview"), (["--help"], "overview"), (["-h"], "overview"), (["help"], "overview"),
                           (["run", "--help"], "run"), (["help", "stacks"], "stacks"), (["report", "-h"], "report")):
            with self.subTest(args=args):
                result = self.xpurun(*args)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertEqual(result.stdout, (golden / f"{name}.txt").read_text())
        for args in (["version"], ["--version"], ["-V"]):
            with self.subTest(args=args):
                self.assertRegex(self.xpurun(*args).stdout, r"\Axpurun \d+\.\d+\.\d+\ncompiler ")
        self.assertEqual(list(self.dir.iterdir()), [self.dir / "home"])

    def test_wrong_usage_is_two_lines(self):
        of_run = "  try:  xpurun help run"
        example = "  try:  xpurun -- torchrun --nproc_per_node 8 train.py"
        self.check_error(self.xpurun("--hang-timout", "3", "--", "true"), 125, "xpurun: error: unknown option "
                         "--hang-timout; did you mean --hang-timeout? [E-USAGE]", of_run)
        self.check_error(self.xpurun("-q"), 125, "xpurun: error: no command to run [E-USAGE]", example)
        self.check_error(self.xpurun("--"), 125, "xpurun: error: no command to run [E-USAGE]", example)
        self.check_error(self.xpurun("--on-hang", "x", "true"), 125,
                         "xpurun: error: --on-hang: 'x' is not one of report, kill, restart [E-USAGE]", of_run)
        self.check_error(self.xpurun("report"), 2, "xpurun: error: report needs a run directory, or latest [E-USAGE]",
                         "  try:  xpurun help report")
        self.check_error(self.xpurun("help", "repot"), 2,
                         "xpurun: error: there is no command repot; did you mean report? [E-USAGE]",
                         "  try:  xpurun help report")
        for args in (["report", "--nope", "a"], ["stacks"], ["stacks", "--run", "a", "b"],
                     ["stacks", "a", "b"], ["stacks", "--format", "x", "a"], ["completions"], ["completions", "tcsh"],
                     ["version", "x"], ["help", "run", "report"]):
            with self.subTest(args=args):
                result = self.xpurun(*args)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 2, result.stderr)
        self.assertEqual(list(self.dir.iterdir()), [self.dir / "home"])

    def test_misspelt_commands(self):
        for words in (["reportt", "latest"], ["run", "reportt"]):
            result = self.xpurun(*words)
            self.assertEqual(result.returncode, 127)
            self.assertIn("did you mean xpurun report?", result.stderr)
        self.assertIn("did you mean prune?", self.xpurun("runs", "prun").stderr)
        self.assertNotIn("did you mean", self.xpurun("no-such-program-at-all").stderr)
        self.assertEqual(list(self.dir.iterdir()), [self.dir / "home"])

    def test_where_options_come_from(self):
        user = self.dir / "home" / ".config" / "xpurun" / "xpurun.conf"
        user.parent.mkdir(parents=True)
        user.write_text("grace = 4\npoll = 4\nname = user\nlogs = on\n")
        (self.dir / "xpurun.conf").write_text("grace = 3\npoll = 3\nname = project\n")
        lines = self.xpurun("--grace", "1", "--print-config", XPURUN_GRACE="2", XPURUN_POLL="2").stdout.splitlines()
        found = {line.split()[0]: line.split(maxsplit=2)[1:] for line in lines}
        self.assertEqual(found["grace"], ["1", "command line"])
        self.assertEqual(found["poll"], ["2", "XPURUN_POLL"])
        self.assertEqual(found["name"], ["project", "xpurun.conf"])
        self.assertEqual(found["logs"], ["on", str(user)])
        self.assertEqual(found["hang-timeout"], ["300s", "default"])

    def test_bad_configuration(self):
        (self.dir / "xpurun.conf").write_text("graze = 3\n")
        self.check_error(self.xpurun("true"), 125, "xpurun: error: xpurun.conf: graze is not an option; did you mean "
                         "grace? [E-CONFIG]", "  try:  man 5 xpurun.conf")
        (self.dir / "xpurun.conf").write_text("grace = soon\n")
        self.assertIn("xpurun.conf: grace: 'soon' is not a duration", self.xpurun("true").stderr)

    def test_misspelt_variable(self):
        warning = "xpurun: warning: XPURUN_GRASE is not known; did you mean XPURUN_GRACE?\n"
        self.assertEqual(self.xpurun("true", XPURUN_GRASE="1").stderr, warning)
        self.assertEqual(self.xpurun("-q", "true", XPURUN_GRASE="1").stderr, "")
        # Variables that a job under xpurun inherits are not misspellings: an inner xpurun prints no warning.
        inner = self.xpurun("--logs", PROGRAM, "--out", "inner", "true")
        self.assertEqual((inner.returncode, inner.stderr), (0, ""))

    def test_reports_of_what_is_not_there(self):
        for args in (["report", "nowhere"], ["report", "latest"], ["stacks", "--run", "latest"],
                     ["stacks", "latest"]):
            with self.subTest(args=args):
                result = self.xpurun(*args)
                self.assertEqual(result.returncode, 1)
                self.assertIn("[E-NO-RUN]", result.stderr)
        for args in (["stacks", "nowhere"], ["stacks", "home"], ["stacks", "--out", "x", "home", "home"]):
            with self.subTest(args=args):
                result = self.xpurun(*args)
                self.assertEqual(result.returncode, 1)
                self.assertIn("[E-NO-STACKS]", result.stderr)

    def test_a_run_directory_that_cannot_be_read(self):
        run = self.dir / "broken"
        run.mkdir()
        for text in ("garbage", "{}", '{"schema": "xpurun.run/99"}'):
            with self.subTest(text=text):
                (run / "run.json").write_text(text)
                told = self.xpurun("report", run)
                self.assertEqual((told.returncode, told.stdout), (1, ""))
                self.assertIn("[E-NO-DATA]", told.stderr)
                self.assertEqual([p.name for p in run.iterdir()], ["run.json"])

    def test_commands_that_cannot_be_meant(self):
        job = self.dir / "job"
        job.mkdir()
        (job / "train.py").write_text("")
        for args, status, hint in ((["job"], 126, "xpurun -- python3 job/train.py"),
                                   (["pyhton3", "x.py"], 127, "xpurun -- python3 x.py"),
                                   (["python3 -c 1"], 127, "xpurun -- python3 -c 1"),
                                   (["-o", "--", "true"], 125, "xpurun help run"),
                                   (["--preload-library", "none.so", "true"], 125, "--no-preload")):
            with self.subTest(args=args):
                told = self.xpurun(*args)
                self.assertEqual(told.returncode, status)
                self.assertIn(hint, told.stderr.splitlines()[-1])
        self.assertFalse((self.dir / "xpurun-runs").exists())
        told = self.xpurun("python3", "-c", "pass", "--on-hang", "kill")
        self.assertEqual(told.returncode, 0)
        self.assertIn("--on-hang stands behind python3", told.stderr)

    def test_report_again(self):
        self.assertEqual(self.xpurun("true").returncode, 0)
        before = json.loads(pathlib.Path(self.dir, "xpurun-runs/latest/run.json").read_text())
        told = self.xpurun("report", "latest")
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertTrue(told.stdout.splitlines()[-1].endswith(f"{before['id']}/report.html"), told.stdout)
        quiet = self.xpurun("report", "--quiet", "latest")
        self.assertEqual((quiet.returncode, quiet.stdout, quiet.stderr), (0, "", ""))
        verdict = json.loads(self.xpurun("report", "--json", "latest").stdout)
        self.assertEqual((verdict["schema"], verdict["kind"]), ("xpurun.verdict/1", "none"))
        # The page alone, as received by mail.
        os.rename(pathlib.Path(self.dir, "xpurun-runs/latest/report.html"), pathlib.Path(self.dir, "mailed.html"))
        mailed = self.xpurun("report", "--from", "mailed.html")
        self.assertEqual((mailed.returncode, mailed.stderr), (0, ""))
        self.assertEqual(mailed.stdout.splitlines(), told.stdout.splitlines()[:-2])
        data = json.loads(self.xpurun("report", "--from", "mailed.html", "--json").stdout)
        self.assertEqual((data["schema"], data["id"]), ("xpurun.report/1", before["id"]))
        no_page = self.xpurun("report", "--from", "xpurun-runs/latest/run.json")
        self.assertEqual((no_page.returncode, no_page.stdout), (1, ""))
        self.assertIn("[E-NO-DATA]", no_page.stderr)
        self.assertEqual(self.xpurun("report", "--from", "mailed.html", "latest").returncode, 2)

    def test_stacks_when_xpurun_is_gone(self):
        process = self.start_xpurun("--", PYTHON, "-c", "import time; time.sleep(60)", env=self.clean)
        self.wait_for(lambda: self.rank_pids().get(0), "rank 0")
        first = self.xpurun("stacks", "--run", str(self.out))
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("<module>", first.stdout)
        self.assertTrue((self.out / "dumps/1-request/stacks/merged.svg").exists())
        folded = self.xpurun("stacks", "--format", "folded", "--out", "merged", str(self.out / "dumps"), str(self.out))
        self.assertEqual(folded.returncode, 0, folded.stderr)
        self.assertEqual(folded.stdout, (self.dir / "merged/merged.folded").read_text())
        process.kill()
        process.wait()
        again = self.xpurun("stacks", "--run", str(self.out))
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("these are the stacks there are", again.stderr)

    def test_a_reader_that_goes_away(self):
        process = subprocess.Popen([PROGRAM, "help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.clean)
        process.stdout.close()
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()
        process.wait()


if __name__ == "__main__":
    xpurun_test.main()
