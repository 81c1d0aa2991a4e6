"""The files that ./bootstrap test passes to clang-tidy, with small test repositories."""

import pathlib
import subprocess
import tempfile
import unittest

import changed_files
import check_tidy


class ChangedFilesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()

    def git(self, *arguments):
        subprocess.run(["git", "-C", self.root, "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def commit(self, **files):
        for name, text in files.items():
            (self.root / (name + ".cpp")).write_text(text)
        self.git("add", ".")
        self.git("commit", "-m", "x")

    def repository(self):
        self.git("init", "-b", "main")
        self.commit(first="1", second="1")

    def changed(self):
        return changed_files.changed_since(self.root, changed_files.base_commit(self.root))

    def test_no_repository(self):
        with self.assertRaisesRegex(changed_files.NoHistory, "no git repository"):
            changed_files.base_commit(self.root)

    def test_no_parent(self):
        self.repository()
        with self.assertRaisesRegex(changed_files.NoHistory, "no parent"):
            changed_files.base_commit(self.root)

    def test_the_last_commit_and_what_is_not_committed_on_the_default_branch(self):
        self.repository()
        self.commit(second="2")
        self.assertEqual(self.changed(), ["second.cpp"])
        (self.root / "third.cpp").write_text("3")
        self.assertEqual(self.changed(), ["second.cpp", "third.cpp"])

    def test_everything_since_the_merge_base_on_a_branch(self):
        self.repository()
        self.git("checkout", "-b", "work")
        self.commit(first="2")
        self.commit(third="3")
        self.git("checkout", "main")
        self.commit(second="2")
        self.git("checkout", "work")
        self.assertEqual(self.changed(), ["first.cpp", "third.cpp"])

    def test_a_header_is_checked_through_one_source(self):
        sources = []
        for name, text in {"own": "", "a": '#include "other.h"\n', "b": '#include "other.h"\n'}.items():
            sources.append(self.root / (name + ".cpp"))
            sources[-1].write_text(text)
        names = [path.name for path in check_tidy.affected(self.root, sources, ["own.h", "other.h", "unused.h"])]
        self.assertEqual(names, ["a.cpp", "own.cpp"])


if __name__ == "__main__":
    unittest.main()
