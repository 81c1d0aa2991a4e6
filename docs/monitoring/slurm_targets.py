#!/usr/bin/env python3
"""Keeps Prometheus' list of this node's xpurun jobs (file_sd) up to date: slurm_targets.py TARGETS.json RUNS_DIR...

Reads run.json of every run directory in or below RUNS_DIR, two levels deep. A run of this host with a /metrics address
is listed while its xpurun lives, and for --keep-lost seconds after an xpurun that died without ending its run, so
that the alert XpurunLost can see it. Directories of other users are private: start this program as root or as the
user of the jobs.
"""

import argparse
import json
import os
import pathlib
import re
import socket
import sys
import tempfile
import time

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d{1,5})/metrics")
LARGEST = 64 << 20  # bytes of a run.json


def lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def runs_below(directories):
    """Run directories and what their run.json says; what cannot be read is left out."""
    for directory in map(pathlib.Path, directories):
        for pattern in ("run.json", "*/run.json", "*/*/run.json"):
            for path in directory.glob(pattern):
                try:
                    if path.parent.is_symlink() or path.stat().st_size > LARGEST:
                        continue
                    yield path.parent, json.loads(path.read_bytes())
                except (OSError, ValueError):
                    continue


class Node:
    def __init__(self, keep_lost_s):
        self.host = socket.gethostname()
        self.keep_lost_s = keep_lost_s
        self.seen = {}  # run directory: moment when its xpurun was last seen alive

    def is_wanted(self, directory, run, now):
        if run["outcome"] != "running":
            return False
        if lives(int(run["supervisor_pid"])):
            self.seen[directory] = now
        return now - self.seen.get(directory, -self.keep_lost_s) < self.keep_lost_s

    def groups(self, directories, now):
        for directory, run in runs_below(directories):
            try:
                address = ADDRESS.fullmatch(run["metrics"])
                if address and run["host"] == self.host and self.is_wanted(directory, run, now):
                    port = int(address[1])
                    yield {"targets": [f"127.0.0.1:{port}"],
                           "labels": {"instance": f"{self.host}:{port}", "run": str(run["id"])}}
            except (KeyError, TypeError, ValueError, OverflowError):
                continue


def write(path, groups):
    """Prometheus may read at any moment, and must never see half a file."""
    text = json.dumps(groups, indent=1) + "\n"
    if path.exists() and path.read_text() == text:
        return
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".targets-", delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("targets", type=pathlib.Path)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--every", type=float, default=10, metavar="SECONDS", help="0: once (default: 10)")
    parser.add_argument("--keep-lost", type=float, default=600, metavar="SECONDS", help="default: 600")
    arguments = parser.parse_args()
    node = Node(arguments.keep_lost)
    while True:
        write(arguments.targets, sorted(node.groups(arguments.runs, time.monotonic()), key=str))
        if arguments.every <= 0:
            return 0
        time.sleep(arguments.every)


if __name__ == "__main__":
    sys.exit(main())
