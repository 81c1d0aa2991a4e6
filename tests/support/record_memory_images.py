"""Records tests/data/cpython/*.image and *.txt from every interpreter of this machine, or from the versions named as
arguments. Needed after a change of the memory that the reader reads, or for a new version:

    XPURUN_STACKDUMP=build/stackdump/xpurun-stackdump PYTHONPATH=tests/support \\
        python3 tests/support/record_memory_images.py build/tests/unit/stackdump/memory_recorder [VERSION...]

A recording is only kept if its frames are those that the interpreter itself reports."""

import json
import os
import re
import subprocess
import sys
import tempfile
import zlib

from stackdump_live import PYTHONS, Target, scene

DATA = os.path.join(os.path.dirname(__file__), "../data/cpython")


def frames_by_thread(text):
    out, frames = {}, []
    for line in text.splitlines():
        if line.startswith("thread "):
            name = re.match(r"thread '(.*)' in", line).group(1)
            frames = out.setdefault(name, [])
        found = re.match(r"  (\S.*) (\S+):(\d+):(\d+)-(\d+):(\d+)$", line)
        if found:
            frames.append([found.group(1), found.group(2), *map(int, found.groups()[2:])])
    return out


def record(recorder, version, path):
    prefix = subprocess.run([path, "-c", "import sys; print(sys.base_prefix)"], capture_output=True, text=True,
                            check=True).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="xpurun-record-") as folder:
        # File names are recorded too, so they must not reveal the paths of this machine's interpreters.
        os.symlink(prefix, f"{folder}/python")
        program = f"{folder}/python/bin/{os.path.basename(path)}"
        env = {"XPURUN_SCENE_DEPTHS": "12,12", "XPURUN_SCENE_INTERPRETERS": "1", "PYTHONHOME": f"{folder}/python",
               "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}
        with Target(scene(), program, env=env, name="Пример 𐐨/naïve.py") as t:
            told = json.loads(t.first_line)
            image = f"{folder}/image"
            text = subprocess.run([recorder, str(t.pid), image], capture_output=True, text=True, check=True).stdout
        with open(image, "rb") as f:
            data = f.read()
    plain = zlib.decompress(data[16:])
    assert os.path.realpath(prefix).encode() not in plain and os.path.expanduser("~").encode() not in plain, version
    have = frames_by_thread(text)
    for thread in told["threads"]:
        want = [[f[0], os.path.basename(f[1])] + f[2:] for f in thread["frames"]]
        if thread["name"] == "second interpreter":  # the interpreter reports one of its two states
            assert want[-1] in have[thread["name"]], (version, want, have)
        else:
            assert have[thread["name"]] == want, (version, thread["name"], want, have[thread["name"]])
    os.makedirs(DATA, exist_ok=True)
    with open(f"{DATA}/{version}.image", "wb") as f:
        f.write(data)
    with open(f"{DATA}/{version}.txt", "w", encoding="utf-8") as f:
        f.write(text)
    print(f"{version}: {len(data)} bytes, {len(text.splitlines())} lines")


def main():
    recorder, *wanted = sys.argv[1:]
    for version, path in PYTHONS.items():
        if path and re.fullmatch(r"3\.\d+t?", version) and (not wanted or version in wanted):
            record(recorder, version, path)


main()
