"""The bundle as the other packages read it: one archive, unpacked into a folder."""

import os
import pathlib
import re
import tarfile

NAME = re.compile(r"^xpurun-(?P<version>.+)-linux-x86_64$")
# Where the bundle keeps what the packages put into other places.
DOCUMENTS = "share/doc/xpurun"
PRIVATE_LIBRARIES = "lib/xpurun"
SBOM = f"{DOCUMENTS}/xpurun.cdx.json"
SCRIPTS = (".sh", ".sbatch")  # of the examples
SOURCE = pathlib.Path(__file__).resolve().parents[1]


def epoch():
    """The only time that gets into a package, in seconds since 1970: by default the first that zip can express."""
    return max(int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")), 315532800)


def unpack(archive, folder):
    """Version and tree of the bundle, unpacked below folder."""
    name = pathlib.Path(archive).name.removesuffix(".tar.gz")
    matched = NAME.match(name)
    if not matched:
        raise SystemExit(f"{archive} is not named as a bundle: xpurun-VERSION-linux-x86_64.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder)
    return matched["version"], pathlib.Path(folder, name)


def files_below(tree):
    return [path for path in sorted(tree.rglob("*")) if path.is_file() or path.is_symlink()]
