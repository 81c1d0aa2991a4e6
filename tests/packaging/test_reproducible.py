"""The same source gives the same bytes: packed again by another user's settings, and built again in another folder.

Minutes: everything is compiled again, without ccache.
"""

import json
import os
import shutil
import subprocess
import unittest

import packages

OPTIONS = ["buildtype", "optimization", "debug", "bundle", "nats", "libdw"]


class ReproducibleTest(packages.Case):
    def release(self, source, build, name, **settings):
        dist = self.dir / name
        scratch = self.dir / f"tmp-{name}"
        scratch.mkdir()
        subprocess.run(["python3", "-B", str(source / "packaging/make_release.py"), str(build), str(dist)], check=True,
                       env={**os.environ, "TMPDIR": str(scratch), "TZ": "Asia/Kathmandu"}, **settings)
        return (dist / "SHA256SUMS").read_text().splitlines()

    def expected(self):
        return (packages.DIST / "SHA256SUMS").read_text().splitlines()

    def test_packed_again(self):
        again = self.release(packages.SOURCE, packages.BUILD, "packed", umask=0o077)
        self.assertEqual(again, self.expected())

    def test_built_again_elsewhere(self):
        source = self.dir / "some other/place"
        source.mkdir(parents=True)
        listing = subprocess.run(["git", "-C", str(packages.SOURCE), "ls-files", "-z", "--cached", "--others",
                                  "--exclude-standard"], capture_output=True, check=True).stdout.decode()
        for name in filter(None, listing.split("\0")):
            if (packages.SOURCE / name).is_file():
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(packages.SOURCE / name, source / name)
        options = json.loads(subprocess.run(["meson", "introspect", "--buildoptions", str(packages.BUILD)],
                                            capture_output=True, check=True).stdout)
        chosen = [f"-D{option['name']}={str(option['value']).lower()}" for option in options
                  if option["name"] in OPTIONS]
        env = {**os.environ, "CCACHE_DISABLE": "1"}
        build = source / "objects"
        subprocess.run(["meson", "setup", str(build), str(source), "-Dtests=false", *chosen], check=True, env=env,
                       stdout=subprocess.DEVNULL)
        subprocess.run(["nice", "ninja", "--quiet", "-C", str(build)], check=True, env=env)
        self.assertEqual(self.release(source, build, "built"), self.expected())


if __name__ == "__main__":
    unittest.main()
