"""Chinese for people, English for programs: --lang, XPURUN_LANG and the locale."""

import json
import re
import subprocess
import unittest
import unicodedata

import xpurun_test
from xpurun_test import PROGRAM, PYTHON, SOURCE

JOB = SOURCE / "tests/e2e/jobs/small_launcher.py"
CHINESE = re.compile("[\u4e00-\u9fff]")
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
        self.assertRegex(result.stderr, r"xpurun: 挂起：rank 1（主机 \S+，pid \d+）被 SIGSTOP 停在 .* 已 \d+ s")
        self.assertRegex(result.stderr, r"xpurun: 报告：/\S+/report\.html\n")
        self.assertIn("xpurun: 结束任务（--on-hang kill）：TERM", result.stderr)
        self.assertRegex(result.stderr, r"xpurun:   被停住：rank 1（\d 个中的 1 个）")
        self.assertRegex(result.stderr, r"xpurun:   下一步：kill -CONT \d+")
        verdict = self.verdict()
        self.assertEqual((verdict["id"], verdict["ranks"]), ("hang.stopped", [1]))
        self.assertTrue(verdict["sentence"].startswith("hang: rank 1 (host "), verdict["sentence"])
        self.english_files()
        page = (self.out / "report.html").read_text()
        self.assertIn('<html lang="zh-CN">', page)
        self.assertRegex(page, r"<h1 id=\"headline\">rank 1（主机|<h1 id=\"headline\">Rank 1（主机")
        for words in ("跳到结论", "证据", "按栈分组的 rank", "罪魁祸首", "合并的栈"):
            self.assertIn(words, page)
        self.assertNotIn("{{", page.split("<script>")[0])

    def test_death_by_environment(self):
        result = self.run_fault("killed", env={"XPURUN_LANG": "zh"})
        self.assertRegex(result.stderr, r"xpurun: 崩溃：rank \d（主机 .*）在 .* 后被 SIGKILL 杀死")
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
        wrong = self.ask("help", "--lang", "fr")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("--lang: 'fr' is not one of auto, en, zh", wrong.stderr)
        wrong = self.ask("run", "--lang", "fr", "true")
        self.assertEqual(wrong.returncode, 125)


if __name__ == "__main__":
    unittest.main()
