"""Fails if clang-tidy warns about a source file of the project that is in the build directory's compile commands.

Usage: check_tidy.py SOURCE_ROOT BUILD_DIR

The build compiles several sources at a time; here each is checked alone, by the compile commands of a directory that is
only configured. So a source that lacks an #include is found too.

With XPURUN_TIDY=changed only the files that differ from the merge base with the default branch, or from the commit
before the last on that branch itself, are checked. A changed header is checked through one source that includes it.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import changed_files
import lint_support


def compiled_sources(root, build):
    """Absolute paths, without generated code; for the tests the compiler's warnings are enough."""
    commands = json.loads((build / "compile_commands.json").read_text())
    paths = {(pathlib.Path(entry["directory"]) / entry["file"]).resolve() for entry in commands}
    return sorted(path for path in paths
                  if root in path.parents and build not in path.parents and (root / "tests") not in path.parents)


def source_with(root, header, sources):
    """The header's own source, else the first that includes it, else None."""
    own = (root / header).with_suffix(".cpp")
    if own in sources:
        return own
    line = re.compile(rf'^#include "{re.escape(header)}"', re.M)
    return next((path for path in sources if line.search(path.read_text())), None)


def affected(root, sources, changed):
    """The sources through which the changed files are checked."""
    chosen = {path for path in sources if str(path.relative_to(root)) in changed}
    headers = [name for name in changed if name.endswith(".h")]
    chosen |= {source_with(root, header, sources) for header in headers}
    return sorted(chosen - {None})


def chosen_sources(root, build):
    sources = compiled_sources(root, build)
    if not sources:
        print("no file to check")
        sys.exit(1)
    if os.environ.get("XPURUN_TIDY") != "changed":
        return sources
    try:
        base = changed_files.base_commit(root)
    except changed_files.NoHistory as reason:
        print(f"no changed files known: {reason}; ./bootstrap check looks at all files")
        sys.exit(lint_support.SKIPPED)
    print(f"changed since {base}:")
    return affected(root, sources, changed_files.changed_since(root, base))


def configure_alone(root, build):
    """A build directory inside the other, with one compile command for each source."""
    alone = build / "tidy"
    options = ["--reconfigure"] if (alone / "build.ninja").exists() else []
    done = subprocess.run(["meson", "setup", *options, "-Dunity=off", "-Dtests=false", str(alone), str(root)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        print(done.stdout)
        sys.exit(1)
    return alone


def main():
    root, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    lint_support.need_tool("run-clang-tidy")
    build = configure_alone(root, build)
    files = chosen_sources(root, build)
    if not files:
        print("no source file changed")
        return 0
    jobs = str(len(os.sched_getaffinity(0)))
    # Without anchors the names are regular expressions that match anywhere.
    done = subprocess.run(["run-clang-tidy", "-quiet", "-j", jobs, "-p", str(build), *(f"^{name}$" for name in files)],
                          cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    lines = [line for line in done.stdout.splitlines()
             if not line.startswith("clang-tidy") and "warnings generated" not in line]
    print("\n".join(lines))
    print(f"{len(files)} files checked")
    return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
