"""The wheel in dist/, installed by pip into clean environments of three Python versions."""

import base64
import csv
import hashlib
import io
import os
import pathlib
import re
import subprocess
import sys
import unittest
import zipfile

import packages

OLDEST = (3, 8)
ASK = "import sys, venv, pip; int(pip.__version__.split('.')[0]) > 22 and print(*sys.version_info[:2])"
PLACES = [
    "bin/xpurun",
    "include/xpurun.h",
    "lib/xpurun/libxpurun_cupti.so",
    "lib/xpurun/libxpurun_preload.so",
    "libexec/xpurun/xpurun-stackdump",
    "libexec/xpurun/xpurun-nodes",
    "share/bash-completion/completions/xpurun.bash",
    "share/fish/vendor_completions.d/xpurun.fish",
    "share/man/man1/xpurun.1",
    "share/man/man7/xpurun-verdicts.7",
    "share/zsh/site-functions/_xpurun",
]


def pythons():
    """{(3, 8): path, ...}: an interpreter with a pip that knows --python, of pyenv, the one that runs this
    test and Debian's."""
    root = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    found = {}
    for path in [*sorted(root.glob("versions/3.*/bin/python3")), pathlib.Path(sys.executable),
                 pathlib.Path("/usr/bin/python3")]:
        asked = subprocess.run([path, "-c", ASK], capture_output=True, check=False, text=True)
        version = tuple(map(int, asked.stdout.split()))
        if version >= OLDEST:
            found.setdefault(version, path)
    return found


def chosen(found):
    """The oldest, one in the middle and the newest."""
    versions = sorted(found)
    return sorted({versions[0], versions[len(versions) // 2], versions[-1]}) if versions else []


class WheelTest(packages.Case):
    def setUp(self):
        super().setUp()
        self.wheel = packages.only("xpurun-*.whl")
        self.version = self.wheel.name.split("-")[1]

    def test_record_has_every_file_with_its_hash(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            names = [name for name in wheel.namelist() if not name.endswith("/")]
            self.assertEqual(len(names), len(set(names)))
            rows = list(csv.reader(io.StringIO(wheel.read(f"xpurun-{self.version}.dist-info/RECORD").decode())))
            self.assertEqual(sorted(row[0] for row in rows), sorted(names))
            for name, digest, size in rows:
                if name.endswith("/RECORD"):
                    self.assertEqual((digest, size), ("", ""))
                    continue
                content = wheel.read(name)
                expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                self.assertEqual((digest, int(size)), (f"sha256={expected}", len(content)), name)

    def test_tag_is_true(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            wheel.extractall(self.dir)
            tag = re.search(r"^Tag: (.*)$", wheel.read(f"xpurun-{self.version}.dist-info/WHEEL").decode(), re.M)[1]
        self.assertEqual(self.wheel.name, f"xpurun-{self.version}-{tag}.whl")
        minor = int(re.fullmatch(r"py3-none-manylinux_2_(\d+)_x86_64", tag)[1])
        needed = set()
        for path in self.dir.rglob("*"):
            if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
                text = self.succeed("readelf", "-VW", path)
                needed |= {int(found) for found in re.findall(r"\bGLIBC_2\.(\d+)", text)}
        self.assertEqual(minor, max(needed))

    def test_installs_runs_and_leaves_nothing(self):
        found = pythons()
        missing = f"needs three Python versions with venv and pip 23 or later, found {sorted(found)}"
        if len(found) < 3 and not os.environ.get("CI"):
            self.skipTest(missing)
        self.assertGreaterEqual(len(found), 3, missing)
        for version in chosen(found):
            with self.subTest(python=version):
                self.check_install(found[version], self.dir / "env{}.{}".format(*version))

    def check_install(self, python, env):
        self.succeed(python, "-m", "venv", "--without-pip", env)
        # The pip of the interpreter, so that the environment needs none.
        pip = [python, "-B", "-m", "pip", "--python", env / "bin/python", "--disable-pip-version-check",
               "--no-cache-dir"]
        before = packages.files_below(env)
        empty = {name for name in before if not any(path.is_file() for path in [env / name, *(env / name).rglob("*")])}
        self.succeed(*pip, "install", "--no-index", "--quiet", self.wheel)
        self.assertEqual([name for name in PLACES if not (env / name).is_file()], [])
        self.assertEqual(self.succeed(*pip, "check"), "No broken requirements found.\n")
        self.assertNotIn("Requires-Dist", next(env.rglob("xpurun-*.dist-info/METADATA")).read_text())
        self.check_program(env / "bin/xpurun", self.version, env / "bin/python")
        # As people start it: with the environment's bin/ first on the path.
        path = {**self.env, "PATH": f"{env / 'bin'}:{self.env['PATH']}"}
        self.assertIn(self.version, self.succeed("xpurun", "--version", env=path))
        self.succeed(*pip, "uninstall", "--yes", "--quiet", "xpurun")
        after = packages.files_below(env)
        # pip leaves empty folders that a package may share with others: share/man and the like. pip also removes the
        # folder of headers if there are no others.
        self.assertEqual({name for name in after - before if "xpurun" in name or not (env / name).is_dir()}, set())
        self.assertEqual(before - after - empty, set())


if __name__ == "__main__":
    unittest.main()
