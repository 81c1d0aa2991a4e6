"""The word check finds the words that the glossary refuses, in prose only."""

import unittest

import check_words as check

GLOSSARY = """
| word | meaning | not |
| --- | --- | --- |
| stall | observed | incident |
| claim | a request | last words, *task* |
| launcher | starts ranks | agent (in prose) |
| rank | a process | |
"""


class Words(unittest.TestCase):
    def found(self, prose):
        return list(check.problems("x.md", prose, check.refused_words(GLOSSARY)))

    def test_reads_the_column(self):
        self.assertEqual(check.refused_words(GLOSSARY), {"incident": "stall", "last words": "claim"})

    def test_names_line_and_the_word_to_use(self):
        self.assertEqual(self.found("good\nAn Incident began."),
                         ['x.md:2: "incident" instead of "stall" (docs/GLOSSARY.md)'])

    def test_words_across_lines(self):
        self.assertEqual(len(self.found("its last\nwords")), 1)

    def test_parts_of_words_are_other_words(self):
        self.assertEqual(self.found("incidental, co-incident, a task"), [])

    def test_a_glossary_without_words_is_an_error(self):
        self.assertTrue(list(check.problems("x.md", "text", {})))


class Prose(unittest.TestCase):
    def test_code_is_not_prose(self):
        text = "a `code\nhere` b\n```\nincident\n```\nsee [x](incident.md) end"
        self.assertEqual(check.prose_of_markdown(text).count("\n"), text.count("\n"))
        self.assertNotIn("incident", check.prose_of_markdown(text))
        self.assertIn("end", check.prose_of_markdown(text))

    def test_macros_of_a_manual_are_not_prose(self):
        self.assertEqual(check.prose_of_manual(".It Fl -incident\ntext"), "\ntext")


if __name__ == "__main__":
    unittest.main()
