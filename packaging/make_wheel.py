#!/usr/bin/env python3
"""Makes dist/xpurun-VERSION-py3-none-manylinux_2_XX_x86_64.whl of a bundle.

usage: make_wheel.py BUNDLE DIST_DIR

pip copies the program itself into the environment's bin/ (no Python starts before xpurun does) and everything else
below the environment's root, where the program looks for its parts. The tag names the glibc that the programs require.
The same bundle gives the same bytes.
"""

import base64
import hashlib
import pathlib
import re
import sys
import tempfile
import time
import zipfile

from bundle import DOCUMENTS, SBOM, SOURCE, epoch, files_below, unpack
from elf import elfs_below, glibc_needed

CLASSIFIERS = [
    "Development Status :: 4 - Beta",
    "Environment :: Console",
    "Environment :: GPU :: NVIDIA CUDA",
    "Intended Audience :: Developers",
    "Intended Audience :: Science/Research",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: C++",
    "Programming Language :: Python :: 3",
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
    "Topic :: Software Development :: Debuggers",
    "Topic :: System :: Distributed Computing",
]


def metadata(version, licences):
    """The first part of README.md, up to its first picture, is the description."""
    readme = (SOURCE / "README.md").read_text()
    description = re.sub(r"^\[.*\]\(README\.\S+\.md\)\n\n", "", readme.split("\n<picture>")[0], flags=re.M)
    lines = [
        "Metadata-Version: 2.4",
        "Name: xpurun",
        f"Version: {version}",
        "Summary: Names the rank that hangs, crashes or slows down a distributed training job",
        "Description-Content-Type: text/markdown",
        "License-Expression: Apache-2.0",
        *(f"License-File: {name}" for name in licences),
        "Keywords: distributed training,hang,deadlock,NCCL,PyTorch,torchrun,stack trace,profiler",
        *(f"Classifier: {classifier}" for classifier in CLASSIFIERS),
    ]
    return "\n".join(lines) + "\n\n" + description.rstrip() + "\n"


# `python -m xpurun` is the program of the same environment.
MODULE = """import os
import shutil
import sys
import sysconfig

program = os.path.join(sysconfig.get_path("scripts"), "xpurun")
program = program if os.access(program, os.X_OK) else shutil.which("xpurun")
if not program:
    sys.exit("xpurun: the program is not in this environment")
os.execv(program, ["xpurun", *sys.argv[1:]])
"""


def place_in_wheel(name, info, data):
    """Where a file of the bundle goes; name is relative to the bundle."""
    if name.startswith("bin/"):
        return f"{data}/scripts/{name.removeprefix('bin/')}"
    if name == SBOM:
        return f"{info}/sboms/{pathlib.Path(name).name}"
    if name.startswith(DOCUMENTS + "/"):
        return f"{info}/licenses/{name.removeprefix(DOCUMENTS + '/').removeprefix('licences/')}"
    return f"{data}/data/{name}"


def record_line(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def make(archive, dist):
    """The path of the new wheel in dist."""
    with tempfile.TemporaryDirectory(prefix="xpurun-wheel-") as scratch:
        version, tree = unpack(archive, scratch)
        major, minor = glibc_needed(elfs_below(tree))
        tag = f"py3-none-manylinux_{major}_{minor}_x86_64"
        info, data = f"xpurun-{version}.dist-info", f"xpurun-{version}.data"
        content = {}
        programs = set()
        for path in files_below(tree):
            name = place_in_wheel(path.relative_to(tree).as_posix(), info, data)
            content[name] = path.read_bytes()
            if path.stat().st_mode & 0o111:
                programs.add(name)
        content["xpurun/__init__.py"] = b""
        content["xpurun/__main__.py"] = MODULE.encode()
        licences = sorted(name.removeprefix(f"{info}/licenses/") for name in content
                          if name.startswith(f"{info}/licenses/"))
        content[f"{info}/METADATA"] = metadata(version, licences).encode()
        content[f"{info}/WHEEL"] = ("Wheel-Version: 1.0\nGenerator: xpurun make_wheel\nRoot-Is-Purelib: false\n"
                                    f"Tag: {tag}\n").encode()
        record = "".join(record_line(name, content[name]) for name in sorted(content)) + f"{info}/RECORD,,\n"
        wheel = dist / f"xpurun-{version}-{tag}.whl"
        partial = wheel.with_suffix(".part")
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
            # The metadata last, as the format recommends.
            for name in sorted(content, key=lambda name: (name.startswith(info), name)):
                add(packed, name, content[name], name in programs)
            add(packed, f"{info}/RECORD", record.encode(), False)
        partial.rename(wheel)
    print(f"{wheel} ({wheel.stat().st_size / 2**20:.1f} MiB)")
    return wheel


def add(packed, name, content, is_program):
    entry = zipfile.ZipInfo(name, time.gmtime(epoch())[:6])
    entry.create_system = 3  # Unix: pip reads the mode
    entry.external_attr = (0o100755 if is_program else 0o100644) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    packed.writestr(entry, content)


def main():
    make(*(pathlib.Path(argument).resolve() for argument in sys.argv[1:3]))


if __name__ == "__main__":
    main()
