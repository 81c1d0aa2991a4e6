#!/usr/bin/env python3
"""CPU seconds of g++ and clang for the same sources, with and without sanitizers:

  bench/compile_cost.py build diagnosis_rules-unity0 launcher_supervise-unity0

Takes the commands from BUILD/compile_commands.json and replaces compiler, optimisation and sanitizers. No compiler
cache is used; nothing in the build changes."""

import argparse
import json
import pathlib
import resource
import shlex
import subprocess
import sys
import tempfile

SANITIZERS = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer"]
KINDS = [
    ("g++ -O2", "g++", ["-O2"]),
    ("g++ -O1", "g++", ["-O1"]),
    ("g++ -O0", "g++", ["-O0"]),
    ("g++ -O0, sanitizers", "g++", ["-O0", *SANITIZERS]),
    ("clang++ -O2", "clang++", ["-O2"]),
    ("clang++ -O0", "clang++", ["-O0"]),
    ("clang++ -O0, sanitizers", "clang++", ["-O0", *SANITIZERS, "-fno-sanitize=vptr"]),
]


def cpu_seconds(words, directory):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{words[0]} failed:\n{done.stderr[-2000:]}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def arguments(entry, output):
    """Without the compiler, its cache, optimisation and output files."""
    words = shlex.split(entry["command"])
    words = words[next(i for i, word in enumerate(words) if word.startswith("-")):]
    for option in ("-o", "-MF", "-MQ"):
        words[words.index(option) + 1] = output
    return [word for word in words if word not in ("-O0", "-O1", "-O2", "-g") and not word.startswith("-fsanitize")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("unit", nargs="+", help="a part of an object's name")
    options = parser.parse_args()
    commands = json.loads((options.build / "compile_commands.json").read_text())
    with tempfile.TemporaryDirectory() as scratch:
        for unit in options.unit:
            entry = next((one for one in commands if unit in one["output"]), None)
            if entry is None:
                sys.exit(f"no object of {options.build} has '{unit}' in its name")
            for name, compiler, flags in KINDS:
                words = [compiler, "-w", *arguments(entry, f"{scratch}/out"), *flags]
                print(f"{unit:28} {name:24} {cpu_seconds(words, entry['directory']):6.1f} s", flush=True)


if __name__ == "__main__":
    main()
