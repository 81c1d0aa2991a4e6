#!/usr/bin/env python3
"""Makes dist/xpurun-VERSION-linux-x86_64.tar.gz of a Meson build that was configured for it.

usage: make_bundle.py BUILD_DIR DIST_DIR

The archive is an install tree plus every shared library that its programs need and that is not glibc's, plus the
licences of its content. The same tree gives the same bytes.
"""

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

GLIBC = re.compile(r"^(linux-vdso|ld-linux-x86-64|lib(c|m|dl|pthread|rt|util|resolv))\.so\.\d+$")
PRIVATE_LIBRARIES = "lib/xpurun"
NODES_HELPER = "libexec/xpurun/xpurun-nodes"


def output_of(*command):
    env = {**os.environ, "LC_ALL": "C"}
    env.pop("LD_LIBRARY_PATH", None)
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True, text=True).stdout


def is_elf(path):
    return path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF"


def needed(path):
    """Name and place of every library that the loader finds for path."""
    for name, place in re.findall(r"^\s*(\S+) => (.*?)(?: \(0x[0-9a-f]+\))?$", output_of("ldd", str(path)), re.M):
        if place == "not found":
            sys.exit(f"make_bundle: {path} needs {name}, which is not found")
        yield name, pathlib.Path(place)


def strip(tree):
    """Strips debug information, which makes the archive a tenth of the size; build ids stay."""
    for program in tree.rglob("*"):
        if is_elf(program):
            output_of("strip", "--strip-unneeded", str(program))


def add_libraries(tree):
    """Copies what the programs need from this machine; returns the originals."""
    originals = set()
    for program in [path for path in sorted(tree.rglob("*")) if is_elf(path)]:
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
                target.chmod(0o644)
            originals.add(place.resolve())
    return originals


def package_of(path):
    """The Debian package of a file; dpkg may know the file by its path before the merge of /usr."""
    for name in (str(path), str(path).removeprefix("/usr")):
        found = subprocess.run(["dpkg-query", "-S", name], capture_output=True, check=False, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    sys.exit(f"make_bundle: {path} is of no package, so its licence is unknown")


def check_nodes(tree):
    """xpurun-nodes needs libnats, which not every build host has. The rest of the bundle works without it."""
    if not (tree / NODES_HELPER).exists():
        print(f"make_bundle: {NODES_HELPER} is left out, so the nodes of a job cannot be joined: install libnats-dev "
              "and configure the build again", file=sys.stderr)
        return False
    return True


def add_licences(tree, source, originals, left_out):
    """Licences of the libraries in the bundle as files, and of those linked into the programs. left_out: packages that
    nothing in this bundle comes from."""
    packages = {package_of(path) for path in originals}
    packages.add(package_of(pathlib.Path(output_of("g++", "-print-file-name=libstdc++.a").strip()).resolve()))
    for line in (source / ".ci/packages.txt").read_text().splitlines():
        if re.fullmatch(r"lib[a-z0-9.+-]*-dev|nlohmann-json3-dev|zlib1g-dev", line):
            packages.add(line)
    packages -= left_out
    folder = tree / "share/doc/xpurun/licences"
    folder.mkdir(parents=True)
    shutil.copy(source / "LICENSE", tree / "share/doc/xpurun/LICENSE")
    for package in sorted(packages):
        text = pathlib.Path("/usr/share/doc", package, "copyright")
        if not text.exists():
            sys.exit(f"make_bundle: no licence of {package} at {text}")
        shutil.copyfile(text.resolve(), folder / f"{package}.txt")


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


def main():
    build, dist = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    source = pathlib.Path(__file__).resolve().parents[1]
    project = json.loads(output_of("meson", "introspect", "--projectinfo", str(build)))
    options = {option["name"]: option["value"]
               for option in json.loads(output_of("meson", "introspect", "--buildoptions", str(build)))}
    name = f"xpurun-{project['version']}-linux-x86_64"
    with tempfile.TemporaryDirectory(prefix="xpurun-bundle-") as scratch:
        subprocess.run(["meson", "install", "-C", str(build), "--no-rebuild", "--quiet", "--destdir", scratch],
                       check=True)
        tree = pathlib.Path(scratch, name)
        if not options["bundle"]:
            sys.exit("make_bundle: this build needs libstdc++.so and its like; configure it with -Dbundle=true")
        pathlib.Path(scratch, options["prefix"].lstrip("/")).rename(tree)
        strip(tree)
        originals = add_libraries(tree)
        add_licences(tree, source, originals, set() if check_nodes(tree) else {"libnats-dev"})
        dist.mkdir(exist_ok=True)
        archive = dist / f"{name}.tar.gz"
        pack(tree, archive, int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")))
    libraries = ", ".join(sorted(path.name for path in originals)) or "none, all of it is linked statically"
    print(f"{archive} ({archive.stat().st_size / 2**20:.1f} MiB; shared libraries: {libraries})")


if __name__ == "__main__":
    main()
