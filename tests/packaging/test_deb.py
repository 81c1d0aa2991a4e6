"""The Debian package in dist/: installed by dpkg below another root, run there and removed; lintian finds nothing."""

import os
import pathlib
import re
import shutil
import unittest

import packages

GLIBC = re.compile(r"^(linux-vdso|ld-linux-x86-64|lib(c|m|dl|pthread|rt|util|resolv))\.so\.\d+$")
PLACES = [
    "usr/bin/xpurun",
    "usr/include/xpurun.h",
    "usr/lib/xpurun/libxpurun_cupti.so",
    "usr/lib/xpurun/libxpurun_preload.so",
    "usr/libexec/xpurun/xpurun-stackdump",
    "usr/libexec/xpurun/xpurun-nodes",
    "usr/share/bash-completion/completions/xpurun",
    "usr/share/doc/xpurun/changelog.gz",
    "usr/share/doc/xpurun/copyright",
    "usr/share/doc/xpurun/xpurun.cdx.json",
    "usr/share/fish/vendor_completions.d/xpurun.fish",
    "usr/share/man/man1/xpurun.1.gz",
    "usr/share/man/man5/xpurun-rundir.5.gz",
    "usr/share/zsh/vendor-completions/_xpurun",
]


class DebTest(packages.Case):
    def setUp(self):
        super().setUp()
        self.package = packages.only("xpurun_*_amd64.deb")
        self.version = self.package.name.split("_")[1]
        self.root = self.dir / "root"

    def field(self, name):
        return self.succeed("dpkg-deb", "--field", self.package, name).strip()

    def dpkg(self, *command):
        """dpkg with another root and with this host's packages as installed there, so that dependencies are checked."""
        admin = self.root / "var/lib/dpkg"
        if not admin.exists():
            (admin / "info").mkdir(parents=True)
            (admin / "updates").mkdir()
            # Without an xpurun package that is installed on this machine.
            status = pathlib.Path("/var/lib/dpkg/status").read_text().split("\n\n")
            (admin / "status").write_text("\n\n".join(s for s in status if not s.startswith("Package: xpurun\n")))
        return self.succeed("dpkg", f"--admindir={admin}", f"--instdir={self.root}", f"--log={self.dir}/dpkg.log",
                            "--force-not-root", "--force-script-chrootless", *command,
                            env={**self.env, "PATH": "/usr/sbin:/sbin:/usr/bin:/bin"})

    def installed_files(self):
        return {name for name in packages.files_below(self.root) if not name.startswith("var")}

    def test_installs_runs_and_leaves_nothing(self):
        self.dpkg("--install", self.package)
        self.assertEqual([name for name in PLACES if not (self.root / name).is_file()], [])
        self.assertEqual(self.dpkg("--verify", "xpurun"), "")  # every file has its sum
        listed = {line.split(maxsplit=1)[1] for line in
                  self.succeed("dpkg-deb", "--info", self.package, "md5sums").splitlines()}
        self.assertEqual(listed, {name for name in self.installed_files() if (self.root / name).is_file()})
        self.check_program(self.root / "usr/bin/xpurun", self.version, "/usr/bin/python3")
        # Loaded with the libraries of the distribution, and missing its supervisor.
        nodes = self.run_in_dir(self.root / "usr/libexec/xpurun/xpurun-nodes")
        self.assertEqual(nodes.returncode, 2, nodes.stderr)
        self.assertIn("descriptor 3", nodes.stderr)
        self.dpkg("--purge", "xpurun")
        self.assertEqual(self.installed_files(), set())

    def test_depends_on_every_library_from_outside(self):
        self.succeed("dpkg-deb", "--extract", self.package, self.root)
        depends = {re.split(r"[ (]", item.strip())[0] for item in self.field("Depends").split(",")}
        needed = {"libc6"}
        for path in self.root.rglob("*"):
            if not (path.is_file() and path.read_bytes()[:4] == b"\x7fELF"):
                continue
            for name, place in re.findall(r"^\s*(\S+) => (\S+)", self.succeed("ldd", path), re.M):
                # A private library finds its own libraries through the program that loaded both.
                if not GLIBC.match(name) and not (self.root / "usr/lib/xpurun" / name).exists():
                    owner = next(found for found in (
                        self.run_in_dir("dpkg-query", "-S", candidate).stdout
                        for candidate in (place, place.removeprefix("/usr"), os.path.realpath(place))) if found)
                    needed.add(owner.split(":")[0])
        self.assertEqual(depends, needed)
        self.assertEqual(self.field("Recommends"), "gdb")

    def test_apt_resolves_it(self):
        plan = self.succeed("apt-get", "install", "--simulate", "--no-install-recommends", self.package)
        self.assertRegex(plan, rf"(?m)^Inst xpurun .*\({re.escape(self.version)} ")

    def test_lintian_finds_nothing(self):
        if not shutil.which("lintian"):
            self.assertFalse(os.environ.get("CI"), "lintian is not installed")
            self.skipTest("lintian is not installed")
        root = ["--allow-root"] if os.geteuid() == 0 else []
        self.assertEqual(self.succeed("lintian", "--fail-on", "error,warning", *root, self.package), "")


if __name__ == "__main__":
    unittest.main()
