"""What a release adds to its packages: checksums, the bill of materials, and no trace of the machine that built it."""

import json
import re
import tarfile
import unittest

import packages


class ReleaseTest(packages.Case):
    def setUp(self):
        super().setUp()
        archive = packages.only("xpurun-*-linux-x86_64.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(self.dir)
        self.tree = self.dir / archive.name.removesuffix(".tar.gz")
        self.bill = json.loads(packages.only("xpurun-*.cdx.json").read_text())
        self.components = {component["name"]: component for component in self.bill["components"]}

    def properties(self, component):
        return {item["name"]: item["value"] for item in component["properties"]}

    def test_checksums_cover_everything(self):
        self.succeed("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=packages.DIST)
        listed = {line.split()[1] for line in (packages.DIST / "SHA256SUMS").read_text().splitlines()}
        self.assertEqual(listed, packages.files_below(packages.DIST) - {"SHA256SUMS"})
        self.assertEqual(len(listed), 4)

    def test_every_part_has_its_version_and_licence(self):
        for name, component in self.components.items():
            self.assertEqual(component["version"], self.succeed("dpkg-query", "-W", "-f=${Version}", name), name)
            licence = self.tree / "share/doc/xpurun" / self.properties(component)["xpurun:licence-file"]
            self.assertTrue(licence.is_file() and licence.stat().st_size > 200, licence)
        named = {self.properties(component)["xpurun:licence-file"] for component in self.components.values()}
        there = {f"licences/{path.name}" for path in (self.tree / "share/doc/xpurun/licences").iterdir()}
        self.assertEqual(there, named)

    def test_libraries_in_the_programs_are_listed(self):
        linkage = {name: self.properties(component)["xpurun:linkage"]
                   for name, component in self.components.items()}
        static = {name for name, kind in linkage.items() if kind == "static"}
        self.assertLessEqual({"libzstd-dev", "zlib1g-dev", "libutf8proc-dev"}, static)
        self.assertTrue(any(name.startswith("libstdc++-") for name in static), static)
        self.assertTrue(any(name.startswith("libboost-program-options") for name in static), static)
        self.assertLessEqual({"libfmt-dev", "nlohmann-json3-dev", "libspdlog-dev"},
                             {name for name, kind in linkage.items() if kind == "headers"})
        # Only used by tests.
        self.assertNotIn("doctest-dev", linkage)

    def test_libraries_beside_the_programs_are_listed(self):
        files = {file["name"] for name, component in self.components.items()
                 for file in component.get("components", [])
                 if self.properties(component)["xpurun:linkage"] == "shared"}
        libraries = [path.name for path in (self.tree / "lib/xpurun").glob("*.so.*")
                     if not path.name.startswith("libxpurun_")]
        self.assertTrue(libraries)
        for library in libraries:
            self.assertTrue(any(name.startswith(library) for name in files), f"{library} not in {files}")

    def test_no_path_of_the_build(self):
        own = re.compile("|".join(re.escape(str(path)) for path in (packages.SOURCE, packages.BUILD)).encode())
        for path in self.tree.rglob("*"):
            if path.is_file():
                self.assertIsNone(own.search(path.read_bytes()), path)


if __name__ == "__main__":
    unittest.main()
