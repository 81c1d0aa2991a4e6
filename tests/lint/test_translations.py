"""Tests po/: reading catalogues, finding texts in sources, comparing placeholders."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "po"))

import messages  # noqa: E402
import placeholders  # noqa: E402
import po_file  # noqa: E402

CATALOGUE = '''# A comment.
msgid ""
msgstr ""
"Language: zh_CN\\n"

#: a.cpp
#. omits 1
msgid "{} {} in "
"{}"
msgstr "{0} 在 {2}"
'''


class Catalogue(unittest.TestCase):
    def test_reads_an_entry_of_several_lines(self):
        [entry] = po_file.parse(CATALOGUE, "x.po")
        self.assertEqual(("{} {} in {}", "{0} 在 {2}", {1}), (entry.msgid, entry.msgstr, entry.omits()))

    def test_writes_what_it_reads(self):
        long = "a \"quoted\" text with a \\ that is long " * 6
        entries = [po_file.Entry("x", "甲\n乙"), po_file.Entry(long, "长" * 130, ["#: b.cpp"])]
        again = po_file.parse(po_file.write(po_file.header(CATALOGUE), entries), "x.po")
        self.assertEqual([(e.msgid, e.msgstr, e.comments) for e in entries],
                         [(e.msgid, e.msgstr, e.comments) for e in again])

    def test_says_where_a_file_is_wrong(self):
        for text, line in [("msgid nothing", 1), ('msgid "a"\nmsgstr "b"\n\nmsgid "a"\nmsgstr "c"', 4),
                           ('msgid "a"\nmsgstr "\\q"', 2), ('"alone"', 1)]:
            with self.assertRaisesRegex(po_file.PoError, f"x.po:{line}:"):
                po_file.parse(text, "x.po")


class Placeholders(unittest.TestCase):
    def test_accepts_another_order(self):
        for english, translated in [("{} of {}", "{1} 之 {0}"), ("{:.1f} %", "{:.1f}%"), ("at {:.{}f} s", "{0:.{1}f} 秒"),
                                    ("plain", "文"), ("{{a}} of {{b}}", "{{b}} 的 {{a}}"), ("a { b", "甲 { 乙")]:
            self.assertEqual("", placeholders.problem(english, translated), english)

    def test_refuses_other_arguments(self):
        for english, translated in [("{} of {}", "{}"), ("{}", "{} {}"), ("{:.1f}", "{}"), ("{}", "{1}"), ("{}", "{"),
                                    ("{} {}", "{0} {}"), ("{}", "}"), ("{{a}}", "{{b}}"), ("a { b", "甲")]:
            self.assertNotEqual("", placeholders.problem(english, translated), english)

    def test_an_argument_is_omitted_only_if_the_entry_says_so(self):
        self.assertEqual("", placeholders.problem("{} {} in", "{0} 在", {1}))
        self.assertIn("omits", placeholders.problem("{} {} in", "{0} 在"))
        self.assertIn("omits", placeholders.problem("{} {} in", "{0} {1} 在", {1}))


class Sources(unittest.TestCase):
    def found(self, name, text):
        return list(messages.in_file(pathlib.PurePath(name), text))

    def test_finds_calls(self):
        text = 'x = tr("a \\"b\\" "\n  "c", 1);\n// tr("no")\nlater("d"); str("e"); base::tr("f")'
        self.assertEqual(['a "b" c', "d", "f"], self.found("report/x.cpp", text))

    def test_finds_the_texts_of_tables(self):
        text = ('constexpr std::string_view kA = "Group";\n{.name = "x", .help = "one "\n "two",\n'
                '.examples = {{"xpurun a", "says a"},\n {"xpurun b",\n "says b"}},')
        self.assertEqual(["one two", "Group", "says a", "says b"],
                         self.found("launcher/options/option_table.cpp", text))
        self.assertEqual([], self.found("launcher/options/run_settings.cpp", text))

    def test_finds_the_texts_of_pages(self):
        self.assertEqual(["A {{b}}", "c"], self.found("templates/x.mustache", "<p>{{#t}}A {{b}}{{/t}} {{#t}}c{{/t}}"))
        self.assertEqual(["a", "b"], self.found("templates/x.js", 'q = t("a"); at("no"); x(t("b", 1))'))


if __name__ == "__main__":
    unittest.main()
