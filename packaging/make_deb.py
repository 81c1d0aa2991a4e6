#!/usr/bin/env python3
"""Makes dist/xpurun_VERSION_amd64.deb of a bundle.

usage: make_deb.py BUNDLE DIST_DIR

Libraries that Debian and Ubuntu have under one package name since glibc 2.35 are dependencies, so that the security
updates of the distribution apply. The other ones stay private, as in the bundle. The same bundle gives the same bytes.
"""

import email.utils
import gzip
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from bundle import DOCUMENTS, PRIVATE_LIBRARIES, SBOM, SCRIPTS, SOURCE, epoch, files_below, unpack
from elf import elfs_below, output_of
from old_glibc import OLD_PRELOAD

# From libssl3 and liblzma5. libunwind8 before 1.6 and the libnats packages, whose names change, are not on this list.
OF_THE_DISTRIBUTION = re.compile(r"^(libcrypto\.so\.3|libssl\.so\.3|liblzma\.so\.5)$")
# Places that differ from those of the bundle, relative to the root of the tree.
MOVED = {
    f"{DOCUMENTS}/LICENSE": None,  # /usr/share/common-licenses has the text
    "share/zsh/site-functions": "share/zsh/vendor-completions",  # Debian's zsh reads no other folder of packages
    "share/bash-completion/completions/xpurun.bash": "share/bash-completion/completions/xpurun",
}
OURS = SOURCE / "packaging/debian"


def compress(path):
    """gzip without name and time; the uncompressed file goes away."""
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
    path.unlink()


def move(usr):
    for old, new in MOVED.items():
        if new is None:
            (usr / old).unlink()
        else:
            (usr / new).parent.mkdir(parents=True, exist_ok=True)
            (usr / old).rename(usr / new)
    for folder in sorted(usr.rglob("*"), reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def add_documents(usr, version, maintainer):
    documents = usr / DOCUMENTS
    shutil.copyfile(OURS / "copyright", documents / "copyright")
    changelog = documents / "changelog"
    changelog.write_text(f"xpurun ({version}) unstable; urgency=medium\n\n  * Release {version}. CHANGELOG.md.gz lists "
                         f"the changes.\n\n -- {maintainer}  {email.utils.formatdate(epoch())}\n")
    shutil.copyfile(SOURCE / "CHANGELOG.md", documents / "CHANGELOG.md")
    overrides = usr / "share/lintian/overrides/xpurun"
    overrides.parent.mkdir(parents=True)
    shutil.copyfile(OURS / "lintian-overrides", overrides)
    for path in [changelog, documents / "CHANGELOG.md", *sorted((usr / "share/man").rglob("*.[1-9]"))]:
        compress(path)


def private_packages(usr):
    """Debian packages of the libraries that stay private, as the bill of materials has them."""
    names = {path.name for path in (usr / PRIVATE_LIBRARIES).glob("*.so.*")}
    for component in json.loads((usr / SBOM).read_text())["components"]:
        files = {file["name"] for file in component.get("components", [])}
        if any(file.startswith(name) for file in files for name in names):
            yield component["name"]


def dependencies(scratch, root):
    """The value of ${shlibs:Depends}, by dpkg's rules: the package that has the library, and since which version."""
    (scratch / "debian").mkdir()
    (root / "DEBIAN").mkdir()  # by which dpkg-shlibdeps knows the root, for $ORIGIN
    shutil.copyfile(OURS / "control", scratch / "debian/control")
    # Without warnings: functions without a version (old_glibc.py) are unknown to dpkg, and were checked in the bundle.
    listing = output_of("dpkg-shlibdeps", "--warnings=0", "-O", f"-S{root}", f"-l{root / 'usr' / PRIVATE_LIBRARIES}",
                        *(f"-x{package}" for package in private_packages(root / "usr")),
                        *(f"-e{path}" for path in elfs_below(root)), cwd=scratch)
    return re.search(r"^shlibs:Depends=(.*)$", listing, re.M)[1]


def write_control(root, version, depends):
    """Fields of the binary package, with the source's that belong to it."""
    source, binary = (OURS / "control").read_text().rstrip().split("\n\n")
    size = sum(path.stat().st_size + 1023 >> 10 for path in files_below(root))
    inherited = "\n".join(line for line in source.splitlines()
                          if line.startswith(("Section:", "Priority:", "Maintainer:")))
    fields, description = binary.replace("${shlibs:Depends}", depends).split("\nDescription:")
    (root / "DEBIAN/control").write_text(
        f"{fields}\nVersion: {version}\n{inherited}\nInstalled-Size: {size}\nDescription:{description}\n")


def maintainer():
    return re.search(r"^Maintainer: (.*)$", (OURS / "control").read_text(), re.M)[1]


def write_sums(root):
    lines = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n"
             for path in files_below(root) if path.relative_to(root).parts[0] != "DEBIAN"]
    (root / "DEBIAN/md5sums").write_text("".join(lines))


def set_modes_and_times(root):
    for path in [root, *root.rglob("*")]:
        is_program = (path.is_dir() or path.parent.name == "bin" or path.name == "prerm" or path.suffix in SCRIPTS
                      or path.is_relative_to(root / "usr/libexec"))
        path.chmod(0o755 if is_program else 0o644)
        os.utime(path, (epoch(), epoch()))


def make(archive, dist):
    """The path of the new package in dist."""
    with tempfile.TemporaryDirectory(prefix="xpurun-deb-") as name:
        scratch = pathlib.Path(name)
        version, tree = unpack(archive, scratch)
        root = scratch / "root"
        root.mkdir()
        usr = tree.rename(root / "usr")
        for path in (usr / PRIVATE_LIBRARIES).iterdir():
            # No host with the packages of the distribution has a glibc for which the second preload library is.
            if OF_THE_DISTRIBUTION.match(path.name) or path.name == OLD_PRELOAD:
                path.unlink()
        move(usr)
        add_documents(usr, version, maintainer())
        write_control(root, version, dependencies(scratch, root))
        shutil.copyfile(OURS / "prerm", root / "DEBIAN/prerm")
        write_sums(root)
        set_modes_and_times(root)
        package = dist / f"xpurun_{version}_amd64.deb"
        partial = scratch / package.name
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(root), str(partial)], check=True,
                       env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch())}, stdout=subprocess.DEVNULL)
        shutil.copyfile(partial, package)
    print(f"{package} ({package.stat().st_size / 2**20:.1f} MiB)")
    return package


def main():
    make(*(pathlib.Path(argument).resolve() for argument in sys.argv[1:3]))


if __name__ == "__main__":
    main()
