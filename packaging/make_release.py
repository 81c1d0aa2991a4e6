#!/usr/bin/env python3
"""Makes everything that a release consists of, in dist/: bundle, wheel, Debian package, bill of materials, checksums.

usage: make_release.py BUILD_DIR DIST_DIR

Files of an earlier release in DIST_DIR are removed. The same build gives the same bytes.
"""

import hashlib
import pathlib
import sys
import tempfile

import make_bundle
import make_deb
import make_wheel
from bundle import SBOM, unpack

CHECKSUMS = "SHA256SUMS"


def remove_earlier(dist):
    for pattern in ["xpurun-*", "xpurun_*", CHECKSUMS]:
        for path in dist.glob(pattern):
            path.unlink()


def copy_bill(archive, dist):
    with tempfile.TemporaryDirectory(prefix="xpurun-sbom-") as scratch:
        version, tree = unpack(archive, scratch)
        bill = dist / f"xpurun-{version}.cdx.json"
        bill.write_bytes((tree / SBOM).read_bytes())
    return bill


def make(build, dist):
    dist.mkdir(exist_ok=True)
    remove_earlier(dist)
    archive = make_bundle.make(build, dist)
    files = [archive, make_wheel.make(archive, dist), make_deb.make(archive, dist), copy_bill(archive, dist)]
    # As sha256sum writes and checks them.
    (dist / CHECKSUMS).write_text("".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(files)))


def main():
    make(*(pathlib.Path(argument).resolve() for argument in sys.argv[1:3]))


if __name__ == "__main__":
    main()
