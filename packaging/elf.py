"""Facts of ELF files, read with binutils: enough to package them, no more."""

import os
import re
import subprocess

GLIBC = re.compile(r"^(linux-vdso|ld-linux-x86-64|lib(c|m|dl|pthread|rt|util|resolv))\.so\.\d+$")


def output_of(*command, cwd=None):
    """Standard output of a command in the C locale; a failure of the command is an exception."""
    env = {**os.environ, "LC_ALL": "C"}
    env.pop("LD_LIBRARY_PATH", None)
    return subprocess.run(command, env=env, cwd=cwd, stdout=subprocess.PIPE, check=True, text=True).stdout


def is_elf(path):
    return path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF"


def elfs_below(tree):
    return [path for path in sorted(tree.rglob("*")) if is_elf(path)]


def glibc_needed(paths):
    """(major, minor) of the newest glibc symbol version that the files require."""
    found = {(0, 0)}
    for path in paths:
        for version in re.findall(r"\bGLIBC_(\d+\.\d+)", output_of("readelf", "-VW", str(path))):
            found.add(tuple(map(int, version.split("."))))
    return max(found)
