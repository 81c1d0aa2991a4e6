"""Shared code of the lint scripts: the project's files, and running a tool over them."""

import os
import pathlib
import shutil
import subprocess
import sys

SKIPPED = 77  # Meson's exit status for a test that could not run here
BATCH = 100   # files per command line


def our_files(root, wanted):
    """Relative paths of the files, committed or about to be, for which wanted(path) holds."""
    listing = subprocess.run(
        ["git", "-c", f"safe.directory={root}", "-C", root, "ls-files", "-z", "--cached", "--others",
         "--exclude-standard"], capture_output=True, check=False)
    if listing.returncode == 0:
        names = [name for name in listing.stdout.decode().split("\0") if name]
    else:  # an unpacked source archive
        names = [str(path.relative_to(root)) for path in pathlib.Path(root).rglob("*")
                 if not path.relative_to(root).parts[0].startswith((".git", "build", "dist"))]
    paths = (pathlib.Path(name) for name in sorted(set(names)))
    return [str(path) for path in paths if (pathlib.Path(root) / path).is_file() and wanted(path)]


def need_tool(name):
    """Skips the test on a machine without the tool, but never in CI."""
    if shutil.which(name) is None:
        print(f"{name} is not installed")
        sys.exit(1 if os.environ.get("CI") else SKIPPED)


def run_over(root, command, files):
    """Runs command over files; True if it succeeded for all. A check of no file is a failed check."""
    if not files:
        print("no file to check")
        return False
    clean = True
    for begin in range(0, len(files), BATCH):
        done = subprocess.run([*command, *files[begin:begin + BATCH]], cwd=root, check=False)
        clean = clean and done.returncode == 0
    print(f"{len(files)} files checked")
    return clean
