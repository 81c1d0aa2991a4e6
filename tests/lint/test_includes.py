"""The include check finds cycles between units and folders, wrong sub-rooms and full folders."""

import pathlib
import unittest

import check_includes as check


def files(**includes):
    """{unit: [included units]} as check.sources() gives them; "_" stands for "/"."""
    return [(pathlib.PurePath(f"preload/{name.replace('_', '/')}.h"), "preload",
             [('"', f"preload/{target}.h") for target in targets]) for name, targets in includes.items()]


class Cycles(unittest.TestCase):
    def test_none(self):
        self.assertEqual(check.cycles(check.edges_of(files(a=["b", "c"], b=["c"], c=[]))), [])

    def test_a_header_and_its_source_are_one_unit(self):
        pair = [(pathlib.PurePath("preload/a.cpp"), "preload", [('"', "preload/a.h"), ('"', "preload/b.h")]),
                (pathlib.PurePath("preload/b.cpp"), "preload", [('"', "preload/b.h"), ('"', "preload/a.h")])]
        self.assertEqual(check.cycles(check.edges_of(pair)), [["preload/a", "preload/b"]])

    def test_two_cycles_and_what_hangs_on_them(self):
        edges = check.edges_of(files(a=["b"], b=["c", "d"], c=["a"], d=["e"], e=["d"], f=["a"]))
        self.assertEqual(check.cycles(edges), [["preload/a", "preload/b", "preload/c"], ["preload/d", "preload/e"]])

    def test_the_message_names_the_edges(self):
        message = next(check.wrong_cycles(check.edges_of(files(a=["b"], b=["a"]))))
        self.assertIn("cycle of 2", message)
        self.assertIn("preload/a -> preload/b", message)


class FolderCycles(unittest.TestCase):
    # a/x -> b/y and b/z -> a/w: no cycle of units, but the two folders include each other.
    EACH_OTHER = files(core_a_x=["core/b/y"], core_b_y=[], core_b_z=["core/a/w"], core_a_w=[])

    def found(self, scene):
        return list(check.wrong_folder_cycles(check.folder_edges(scene)))

    def test_folders_below_a_sub_room_that_include_each_other(self):
        self.assertEqual(check.cycles(check.edges_of(self.EACH_OTHER)), [])
        message, = self.found(self.EACH_OTHER)
        self.assertIn("cycle of 2 folders", message)
        self.assertIn("preload/core/a -> preload/core/b", message)

    def test_a_folder_and_its_parent(self):
        self.assertEqual(len(self.found(files(core_x=["core/a/y"], core_a_y=[], core_a_z=["core/w"], core_w=[]))), 1)
        self.assertEqual(self.found(files(core_x=["core/a/y"], core_a_y=[], core_a_z=["core/a/y"])), [])


class Words(unittest.TestCase):
    def test_each_folder_has_a_line(self):
        words = check.rooms_in_words("## `report/`\n| `render` | `parts` |\n## `commands/`\n| `.` | |\n")
        self.assertEqual(words, {"report": {"render", "parts"}, "commands": {"."}})
        folders = {"report": {"render", "render/parts", "speed"}, "commands": {"cli"}}
        found = list(check.wrong_words(words, folders))
        self.assertEqual(found[:2],
                         ["docs/ROOMS.md: report/speed is missing", "docs/ROOMS.md: commands/cli is missing"])
        self.assertIn("SUBROOMS: there is no commands/burn", found)


class SubRooms(unittest.TestCase):
    def wrong(self, source, target):
        return list(check.wrong_subroom(pathlib.PurePath(source), "preload", pathlib.PurePath(target)))

    def test_directions(self):
        self.assertEqual(self.wrong("preload/cuda/a.h", "preload/core/b.h"), [])
        self.assertEqual(self.wrong("preload/cuda/a.h", "preload/cuda/b.h"), [])
        self.assertEqual(len(self.wrong("preload/core/a.h", "preload/cuda/b.h")), 1)
        self.assertEqual(len(self.wrong("preload/core/a.h", "preload/start.h")), 1)
        self.assertIn("not in the table", self.wrong("preload/new/a.h", "preload/core/b.h")[0])

    def test_the_table_has_no_cycle(self):
        for room, table in check.SUBROOMS.items():
            self.assertEqual(check.cycles(table), [], room)

    def test_folders(self):
        many = files(**{f"cuda_f{i}": [] for i in range(26)})
        self.assertEqual(len(list(check.full_folders(many))), 1)
        self.assertEqual(list(check.full_folders(many[1:])), [])


if __name__ == "__main__":
    unittest.main()
