#!/usr/bin/env python3
"""Makes dist/xpurun-VERSION-linux-x86_64.tar.gz of a Meson build that was configured for it.

usage: make_bundle.py BUILD_DIR DIST_DIR

The archive is an install tree plus every shared library that its programs need and that is not glibc's, plus the
licences and the bill of materials of its content. The same tree gives the same bytes. The wheel and the Debian package
are made of the archive.
"""

import collections
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import old_glibc
import sbom
from bundle import DOCUMENTS, PRIVATE_LIBRARIES, SBOM, SCRIPTS, SOURCE, epoch
from components import components
from elf import GLIBC, elfs_below, output_of

NODES_HELPER = "libexec/xpurun/xpurun-nodes"


def needed(path):
    """Name and place of every library that the loader finds for path."""
    for name, place in re.findall(r"^\s*(\S+) => (.*?)(?: \(0x[0-9a-f]+\))?$", output_of("ldd", str(path)), re.M):
        if place == "not found":
            sys.exit(f"make_bundle: {path} needs {name}, which is not found")
        yield name, pathlib.Path(place)


def strip(tree):
    """Strips debug information, which makes the archive a tenth of the size; build ids stay."""
    for program in elfs_below(tree):
        output_of("strip", "--strip-unneeded", "--remove-section=.comment", str(program))


def add_libraries(tree):
    """Copies what the programs need from this machine; returns the originals."""
    originals = set()
    for program in elfs_below(tree):
        for name, place in needed(program):
            if GLIBC.match(name) or tree in place.parents:
                continue
            here = os.path.relpath(tree / PRIVATE_LIBRARIES, program.parent)
            if f"$ORIGIN/{here}]" not in output_of("readelf", "-dW", str(program)):
                sys.exit(f"make_bundle: {program.relative_to(tree)} needs {name} but has no DT_RPATH "
                         f"$ORIGIN/{here}: set install_rpath and program_link_args in its meson.build")
            target = tree / PRIVATE_LIBRARIES / name
            if not target.exists():
                shutil.copyfile(place.resolve(), target)
            originals.add(place.resolve())
    return originals


def check_nodes(tree):
    """xpurun-nodes needs libnats, which not every build host has. The rest of the bundle works without it."""
    if not (tree / NODES_HELPER).exists():
        print(f"make_bundle: {NODES_HELPER} is left out, so the nodes of a job cannot be joined: install libnats-dev "
              "and configure the build again", file=sys.stderr)


def add_documents(tree, version, parts):
    """Our licence, the licences of the libraries in the programs and beside them, and the bill of materials."""
    folder = tree / DOCUMENTS / "licences"
    folder.mkdir(parents=True)
    shutil.copy(SOURCE / "LICENSE", tree / DOCUMENTS / "LICENSE")
    texts = collections.defaultdict(list)  # by source package, whose binary packages have the same one as a rule
    for part in parts:
        place = pathlib.Path("/usr/share/doc", part.package, "copyright")
        if not place.exists():
            sys.exit(f"make_bundle: no licence of {part.package} at {place}")
        if (text := place.read_text()) not in texts[part.source]:
            texts[part.source].append(text)
    for source, found in texts.items():
        (folder / f"{source}.txt").write_text("\n".join(found))
    (tree / SBOM).write_text(sbom.document(version, parts, epoch()))


def set_modes(tree):
    """The modes do not depend on the umask of the build. A shared library is not a program."""
    for path in tree.rglob("*"):
        is_program = (path.is_dir() or path.parent.name == "bin" or path.is_relative_to(tree / "libexec")
                      or path.suffix in SCRIPTS)
        path.chmod(0o755 if is_program else 0o644)
    tree.chmod(0o755)


def pack(tree, archive, mtime):
    def normalise(member):
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime = mtime
        return member

    partial = archive.with_suffix(".part")
    with open(partial, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in [tree, *sorted(tree.rglob("*"))]:
            tar.add(path, path.relative_to(tree.parent), recursive=False, filter=normalise)
    partial.rename(archive)


def make(build, dist):
    """The path of the new archive in dist."""
    project = json.loads(output_of("meson", "introspect", "--projectinfo", str(build)))
    options = {option["name"]: option["value"]
               for option in json.loads(output_of("meson", "introspect", "--buildoptions", str(build)))}
    if not options["bundle"]:
        sys.exit("make_bundle: this build needs libstdc++.so and its like; configure it with -Dbundle=true")
    name = f"xpurun-{project['version']}-linux-x86_64"
    with tempfile.TemporaryDirectory(prefix="xpurun-bundle-") as scratch:
        subprocess.run(["meson", "install", "-C", str(build), "--no-rebuild", "--quiet", "--destdir", scratch],
                       check=True)
        tree = pathlib.Path(scratch, name)
        pathlib.Path(scratch, options["prefix"].lstrip("/")).rename(tree)
        strip(tree)
        originals = add_libraries(tree)
        old_glibc.lower(elfs_below(tree), tree / PRIVATE_LIBRARIES / old_glibc.FUNCTIONS)
        check_nodes(tree)
        add_documents(tree, project["version"], components(build, originals))
        set_modes(tree)
        dist.mkdir(exist_ok=True)
        archive = dist / f"{name}.tar.gz"
        pack(tree, archive, epoch())
    libraries = ", ".join(sorted(path.name for path in originals)) or "none, all of it is linked statically"
    print(f"{archive} ({archive.stat().st_size / 2**20:.1f} MiB; shared libraries: {libraries})")
    return archive


def main():
    make(*(pathlib.Path(argument).resolve() for argument in sys.argv[1:3]))


if __name__ == "__main__":
    main()
