"""The Debian packages whose code is in our programs: asked from the build itself, so that the list cannot become stale.

A package is in the programs if a header of the package was compiled into them, an archive of the package was linked
into them, or a shared library of the package was copied beside them. glibc and the kernel's headers are not listed:
the host provides their code.
"""

import collections
import json
import os
import pathlib
import re
import subprocess

from elf import output_of

FROM_THE_HOST = re.compile(r"^(libc6|libc6-dev|linux-libc-dev|libcrypt-dev)$")
# The compiler adds these without naming them on its command line.
OF_THE_COMPILER = ["libstdc++.a", "libgcc.a"]

Component = collections.namedtuple("Component", "package version source linkage files")
LINKAGES = ["headers", "static", "shared"]  # a later one includes the earlier ones


def installed_programs(build):
    """Outputs of the compiled targets that are installed, relative to build."""
    targets = json.loads(output_of("meson", "introspect", "--targets", str(build)))
    return [os.path.relpath(name, build) for target in targets
            if target.get("installed") and target["type"] in ("executable", "shared library", "shared module")
            for name in target["filename"]]


def headers_of(build, programs):
    """Absolute paths of the headers that the objects of the programs were compiled from."""
    inputs = output_of("ninja", "-C", str(build), "-t", "inputs", *programs).splitlines()
    objects = [name for name in inputs if name.endswith(".o")]
    dependencies = output_of("ninja", "-C", str(build), "-t", "deps", *objects)
    return {os.path.normpath(line.strip()) for line in dependencies.splitlines() if line.startswith("    /")}


def archives_of(build, programs):
    """Absolute paths of the static libraries on the programs' link commands and of the compiler's own."""
    found = {output_of("g++", "-print-file-name=" + name).strip() for name in OF_THE_COMPILER}
    for program in programs:
        link = output_of("ninja", "-C", str(build), "-t", "commands", "-s", program)
        found |= set(re.findall(r"(?<=\s)/\S+\.a(?=\s)", link))
    return {os.path.realpath(name) for name in found}


def owners(paths):
    """{path: package} by dpkg, which may know a file by its path from before the merge of /usr."""
    names = {}
    for path in paths:
        names[path] = path
        names[path.removeprefix("/usr")] = path
    listing = subprocess.run(["dpkg-query", "-S", *sorted(names)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             env={**os.environ, "LC_ALL": "C"}, check=False, text=True).stdout
    found = {}
    for line in listing.splitlines():
        packages, _, name = line.partition(": ")
        if name in names:
            found[names[name]] = packages.split(",")[0].split(":")[0]
    return found


def components(build, shared):
    """Components of the build, by package name. shared: the libraries that were copied beside the programs."""
    build = pathlib.Path(build).resolve()
    programs = installed_programs(build)
    files = collections.defaultdict(set)
    linkage = {}
    unknown = []
    used = [("headers", headers_of(build, programs)), ("static", archives_of(build, programs)),
            ("shared", {str(path) for path in shared})]
    for kind, paths in used:
        outside = {path for path in paths if build not in pathlib.Path(path).parents}
        known = owners(outside)
        unknown += [path for path in outside if path not in known and kind != "headers"]
        for path, package in known.items():
            linkage[package] = kind
            files[package].add(path)
    if unknown:
        raise SystemExit(f"components: of no Debian package, so their licence is unknown: {', '.join(sorted(unknown))}")
    found = []
    for package in sorted(package for package in linkage if not FROM_THE_HOST.match(package)):
        version, source = output_of("dpkg-query", "-W", "-f=${Version}\t${source:Package}", package).split("\t")
        found.append(Component(package, version, source, linkage[package], sorted(files[package])))
    return found
