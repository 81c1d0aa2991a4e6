"""Chinese for people, English for programs: --lang, XPURUN_LANG and the locale."""

import json
import os
import re
import signal
import subprocess
import tarfile
import unittest
import unicodedata

import xpurun_test
from xpurun_test import PROGRAM, PYTHON, SOURCE

JOB = SOURCE / "tests/e2e/jobs/small_launcher.py"
CHINESE = re.compile("[\u4e00-\u9fff]")
# Two English words side by side, neither of them a name, an option, a path, a command or a unit.
SENTENCE = re.compile(r"(?<![\w./=`'-])[a-z]{2,}(?:, | )[a-z]{2,}(?![\w./=-])")
LOCALE = {"LC_ALL": "", "LC_MESSAGES": "", "LANG": "C.UTF-8"}


def width(text):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


class Language(xpurun_test.Case):
    def run_fault(self, fault, *args, env=None):
        place = self.dir / "job"
        place.mkdir(exist_ok=True)
        return self.run_xpurun("--poll", "200ms", *args, "--", PYTHON, JOB, fault, place,
                               env=self.env(**{**LOCALE, **(env or {})}))

    def ask(self, *args, env=None):
        return subprocess.run([PROGRAM, *map(str, args)], env=self.env(**{**LOCALE, **(env or {})}), text=True,
                              capture_output=True, cwd=self.dir, check=False)

    def english_files(self):
        """The files for programs."""
        for name in ("verdict.json", "report.json", "run.json"):
            text = (self.out / name).read_text()
            self.assertFalse(CHINESE.search(text), f"{name}: {CHINESE.findall(text)[:20]}")
            self.assertFalse(CHINESE.search(json.dumps(json.loads(text), ensure_ascii=False)), name)

    def test_hang(self):
        result = self.run_fault("stopped", "--hang-timeout", "2", "--on-hang", "kill", "--lang", "zh")
        self.assertEqual(result.returncode, 124, result.stderr)
        self.assertRegex(result.stderr, r"xpurun: 挂起：rank 1 被 SIGSTOP 停在 .* 已 \d+ s")
        self.assertRegex(result.stderr, r"xpurun: 报告：/\S+/report\.html\n")
        self.assertIn("xpurun: 结束任务（--on-hang kill）：TERM", result.stderr)
        self.assertRegex(result.stderr, r"xpurun:   被停住：rank 1（1 / \d，pid \d+）")
        self.assertRegex(result.stderr, r"xpurun:   下一步：kill -CONT \d+")
        verdict = self.verdict()
        self.assertEqual((verdict["id"], verdict["ranks"]), ("hang.stopped", [1]))
        self.assertTrue(verdict["sentence"].startswith("hang: rank 1 "), verdict["sentence"])
        self.english_files()
        page = (self.out / "report.html").read_text()
        self.assertIn('<html lang="zh-CN">', page)
        self.assertRegex(page, r"<h1 id=\"headline\">[Rr]ank 1 被 SIGSTOP")
        for words in ("跳到结论", "证据", "按栈分组的 rank", "罪魁祸首", "合并的栈"):
            self.assertIn(words, page)
        self.assertNotIn("{{", page.split("<script>")[0])

    def test_death_by_environment(self):
        result = self.run_fault("killed", env={"XPURUN_LANG": "zh"})
        self.assertRegex(result.stderr, r"xpurun: (崩溃：)? *rank \d 在 .*后被 SIGKILL 杀死")
        self.english_files()

    def test_locale_and_its_encoding(self):
        for env, chinese in (({"LANG": "zh_CN.UTF-8"}, True), ({"LC_MESSAGES": "zh_TW.UTF-8"}, True),
                             ({"LANG": "zh_CN.GB18030"}, False), ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, False),
                             ({"LANG": "zh_CN.UTF-8", "XPURUN_LANG": "en"}, False)):
            with self.subTest(env=env):
                self.assertEqual("用法：" in self.ask("help", env=env).stdout, chinese)

    def test_report_again_in_either_language(self):
        self.run_fault("exit")
        english = self.ask("report", self.out, "--lang", "en")
        chinese = self.ask("report", self.out, "--lang", "zh")
        self.assertFalse(CHINESE.search(english.stdout), english.stdout)
        self.assertTrue(chinese.stdout.startswith("退出："), chinese.stdout)
        self.assertIn("根因", chinese.stdout)
        self.assertFalse(CHINESE.search(self.ask("report", self.out, "--json", "--lang", "zh").stdout))
        both = json.loads(self.ask("report", self.out, "--quiet", "--json", "--lang", "zh").stdout)
        self.assertTrue(both["sentence"].startswith("exit: "))
        self.assertTrue(both["translation"]["sentence"].startswith("退出："))
        self.assertIn("**退出：", self.ask("report", self.out, "--format", "markdown", "--lang", "zh").stdout)
        # The page has the language in which it was written, and its data too.
        self.assertTrue(self.ask("report", "--from", self.out / "report.html").stdout.startswith("退出："))
        self.assertEqual(self.ask("report", self.out, "--quiet").returncode, 0)
        self.assertIn('<html lang="en">', (self.out / "report.html").read_text())

    def test_the_page_of_stacks(self):
        self.run_fault("stopped", "--hang-timeout", "2", "--on-hang", "kill")
        page = self.ask("stacks", "--format", "html", self.out, env={"XPURUN_LANG": "zh"}).stdout
        self.assertIn('<html lang="zh-CN">', page)
        self.assertIn("按栈分组的 rank", page)
        self.assertNotRegex(self.ask("stacks", "--format", "folded", self.out, env={"XPURUN_LANG": "zh"}).stdout,
                            CHINESE)

    def test_narrow_terminals(self):
        self.run_fault("exit")
        for columns in (40, 80):
            text = self.ask("report", self.out, "--lang", "zh", env={"COLUMNS": str(columns)}).stdout
            long = [line for line in text.splitlines()
                    if width(line) > columns and not re.search(r"^ *\$|^打开|^ *>? +\d+  |/\S{20}", line)]
            self.assertEqual(long, [], text)

    def test_help(self):
        text = self.ask("help", "--lang", "zh", "run", env={"COLUMNS": "80"}).stdout
        for words in ("用法：", "示例：", "监视：", "--hang-timeout DURATION", "（默认：300s）", "更多：xpurun-run(1)"):
            self.assertIn(words, text)
        self.assertEqual([line for line in text.splitlines() if width(line) > 80 and "XPURUN_" not in line], [])
        self.assertIn("用法：", self.ask("--lang", "zh", "--help").stdout)
        # Every command, before its name and after it.
        for words in (["--lang", "zh", "doctor"], ["--lang=zh", "top", "--help"], ["version", "--lang=zh", "--help"]):
            self.assertTrue(CHINESE.search(self.ask(*words).stdout), words)
        self.assertEqual(self.ask("version", "--lang", "zh").returncode, 0)
        self.assertIn("option --lang", self.ask("version", "--lang", "fr").stderr)
        wrong = self.ask("help", "--lang", "fr")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("--lang: 'fr' is not one of auto, en, zh", wrong.stderr)
        wrong = self.ask("run", "--lang", "fr", "true")
        self.assertEqual(wrong.returncode, 125)

    def no_english(self, text, *names):
        """Names are commands and values that stay, like the module of a position: `<frozen abc>`."""
        text = re.sub(r"<frozen [\w.]+>", "", text)
        for name in names:
            text = text.replace(name, "")
        self.assertEqual(SENTENCE.findall(text), [], text)
        self.assertTrue(CHINESE.search(text), text)

    def columns_of(self, heading, words):
        """Where the words begin on the screen."""
        return [width(heading[:heading.index(word)]) for word in words]

    def test_runs(self):
        self.out = self.dir / "xpurun-runs" / "failed"
        self.run_fault("killed")
        self.run_xpurun("--name", "fine", "--", PYTHON, "-c", "pass", out=False)
        for columns in (40, 80, 160):
            with self.subTest(columns=columns):
                chinese = self.ask("runs", "--lang", "zh", env={"COLUMNS": str(columns)}).stdout
                self.no_english(chinese)
                self.assertIn("退出 0", chinese)
                self.assertRegex(chinese, "正常结束|正常完成|SIGKILL")
                self.assertEqual([line for line in chinese.splitlines() if width(line) > columns], [])
        heading, *lines = [line for line in chinese.splitlines() if not line.startswith("  ")]
        self.assertTrue(heading.startswith("运行"), heading)
        outcome, = self.columns_of(heading, ["结局"])
        for line in lines:
            name, rest = line.split(maxsplit=1)
            self.assertEqual(width(line[:line.index(rest)]), outcome, chinese)
        by_locale = self.ask("runs", env={"LANG": "zh_CN.UTF-8", "COLUMNS": "160"}).stdout
        self.assertEqual(by_locale, chinese)
        self.assertFalse(CHINESE.search(self.ask("runs", "--json", "--lang", "zh").stdout))
        self.no_english(self.ask("runs", "show", "latest", "--lang", "zh").stdout)
        self.no_english(self.ask("runs", "prune", "--keep", "1", "--dry-run", "--lang", "zh").stdout)

    def test_analysis(self):
        for name in ("garbage-storm", "slow-link"):
            with tarfile.open(SOURCE / "tests" / "data" / "gpu_runs" / f"{name}.tar.xz") as tar:
                tar.extractall(self.dir)
        slow, other = self.dir / "garbage-storm", self.dir / "slow-link"
        names = ("name", "host", "vm", "GPU", "NVIDIA", "format", "json", "optimizer", "xpurun ctl", "barrier at")
        for columns in ("60", "200"):
            self.no_english(self.ask("analyze", slow, "--lang", "zh", env={"COLUMNS": columns}).stdout, *names)
        for command in (("analyze", slow), ("diff", other, slow)):
            english = self.ask(*command, "--lang", "en").stdout
            self.assertFalse(CHINESE.search(english), english)
        # Operations keep their names.
        self.assertTrue(CHINESE.search(self.ask("diff", other, slow, "--lang", "zh").stdout.partition("\n\n")[0]))
        told = self.ask("analyze", slow, "--format", "json", "--lang", "zh").stdout
        self.assertFalse(CHINESE.search(json.dumps(json.loads(told), ensure_ascii=False)))

    def test_top(self):
        place = self.dir / "job"
        place.mkdir()
        job = self.start_xpurun("--poll", "200ms", "--hang-timeout", "2", "--", PYTHON, JOB, "stopped", place,
                                env=self.env(**LOCALE))
        self.wait_for(lambda: (self.out / "verdict.json").exists() and self.verdict()["kind"] == "hang", "verdict")
        self.wait_for(lambda: "1!" in self.ask("top", "--once", self.out).stdout, "culprit")
        for columns in (40, 80):
            with self.subTest(columns=columns):
                text = self.ask("top", "--once", "--lang", "zh", self.out, env={"COLUMNS": str(columns)}).stdout
                self.no_english(text)
                self.assertEqual([line for line in text.splitlines() if width(line) > columns], [])
        self.assertIn("挂起：rank 1 被停住", text)
        rows = [line for line in text.splitlines() if re.match(r" +\d+[ !]", line)]
        heading = next(line for line in text.splitlines() if line.startswith("RANK"))
        state, where = self.columns_of(heading, ["状态", "位置"])
        for row in rows:
            self.assertRegex(row, r"small_launcher\.py:\d+ \w+|-$")
            word = re.search("被停住|等待", row)
            self.assertEqual(width(row[:word.start()]), state, text)
            self.assertEqual(width(row[:re.search(r"small_launcher\.py|-$", row).start()]), where, text)
        self.assertTrue([row for row in rows if row.startswith("   1!") and "被停住" in row], text)
        by_locale = self.ask("top", "--once", self.out, env={"LANG": "zh_CN.UTF-8", "COLUMNS": "80"}).stdout
        self.assertIn("位置", by_locale)
        self.assertFalse(CHINESE.search(self.ask("top", "--once", self.out).stdout))
        os.kill(self.rank_pids()[1], signal.SIGKILL)
        job.communicate(timeout=60)
        self.no_english(self.ask("top", "--once", "--lang", "zh", self.out).stdout)

    def test_doctor(self):
        for columns in (40, 80):
            with self.subTest(columns=columns):
                text = self.ask("doctor", "--lang", "zh", "--", PYTHON, "-c", "pass",
                                env={"COLUMNS": str(columns)}).stdout
                self.no_english(text, "timedatectl set-ntp true", "ulimit", "stacks --run", "xpurun top", "runs prune",
                                "xpurun doctor", "sudo sysctl", "docker run", "GNU gdb", "xpurun stacks")
                self.assertIn("正常", text)
        column = width("正常  ") + 12
        for line in text.splitlines():
            if re.match("(正常|警告|失败|无关) +[a-z]", line):
                # The name of the check stands in its column, the text behind.
                self.assertRegex(line, r"^\S{2}  [a-z-]+ +\S")
                head = re.match(r"^\S+ +\S+ +", line)[0]
                self.assertEqual(width(head), column, text)
        self.assertFalse(CHINESE.search(self.ask("doctor", "--json", "--lang", "zh").stdout))
        self.assertFalse(CHINESE.search(self.ask("doctor").stdout))

    def test_errors_of_the_command_line(self):
        for words, status, text in (
                (["runs", "--lang", "zh", "--keep", "x"], 2, "'x' 不是 1 到"),
                (["--lang", "zh", "--grase", "3", "true"], 125, "未知选项 --grase；是否想写 --grace？"),
                (["top", "--lang=zh", "/no/such"], 1, "/no/such 没有运行目录"),
                (["doctor", "--lang", "zh", "--jso"], 2, "未知选项 --jso；是否想写 --json？"),
                (["runs", "--lang", "zh", "remove"], 2, "不能 remove；是否想写 prune？")):
            with self.subTest(words=words):
                result = self.ask(*words)
                self.assertEqual((result.returncode, result.stdout), (status, ""), result.stderr)
                self.assertIn("xpurun: 错误：", result.stderr)
                self.assertIn(text, result.stderr)
                self.no_english(result.stderr, "xpurun help", "ls -d", "xpurun-runs/*")
        for words, status, text in (
                (["stacks"], 2, "stacks 需要一个含转储的目录"), (["ctl", "dmp"], 2, "是否想写 dump？"),
                (["trochrun"], 127, "无法运行 trochrun"), (["--hang-timeout", "5x", "true"], 125, "不是时长"),
                (["attach", "x"], 125, "'x' 不是进程号"), (["report", "nothing"], 1, "nothing 没有运行目录"),
                (["nonsense.py"], 127, "没有那个文件或目录"), (["help", "stakcs"], 2, "是否想写 stacks？")):
            with self.subTest(words=words):
                result = self.ask(*words, env={"LANG": "zh_CN.UTF-8"})
                self.assertEqual(result.returncode, status, result.stderr)
                self.assertIn("xpurun: 错误：", result.stderr)
                self.assertIn(text, result.stderr)
        # The words of the user's command are not ours.
        result = self.ask("--grase", "--", "true", "--lang", "zh")
        self.assertIn("unknown option --grase; did you mean --grace?", result.stderr)


if __name__ == "__main__":
    unittest.main()
