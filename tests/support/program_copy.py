"""A copy of one of xpurun's programs without the other parts of xpurun."""

import pathlib
import shutil

# What a program of a build for the bundle needs beside libc, from the program's folder (packaging/glibc/meson.build).
LIBRARY = "../packaging/glibc/libxpurun_glibc.so"


def copy_alone(program, folder):
    """The path of the copy in a new folder below `folder`; every user may start it."""
    place = pathlib.Path(folder) / "bin"
    place.mkdir()
    place.chmod(0o755)
    copy_library(program, folder)
    return shutil.copy(program, place)


def copy_library(program, folder):
    """For a copy of the program in `folder`/bin."""
    library = pathlib.Path(program).parent / LIBRARY
    if library.exists():
        beside = pathlib.Path(folder, "packaging/glibc")
        beside.mkdir(parents=True)
        for made in (beside, beside.parent):
            made.chmod(0o755)
        shutil.copy(library, beside)
