#!/usr/bin/env python3
"""Renews the pictures of README.md and docs/: takes screenshots of reports in headless Chromium.

usage: docs/screenshots.py [--build DIR] [--run DIR] [--out DIR] [--narrow] [--recorded]

The reports are that of the demo, which is run first, and those of runs recorded on GPUs (tests/data/gpu_runs).
--recorded leaves the demo out.

--run takes a run directory that there is already instead of running the demo. What the pictures show is what the demo
gave, but for names: host, home, checkout and temporary directory of whoever runs this are replaced by neutral ones
before the report is built. --narrow adds a picture of the page on a telephone, only to be looked at. Needs Chromium
and, for the demo, torch (./bootstrap deps).
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(SOURCE / "tests/support"))

import chromium  # noqa: E402
import small_png  # noqa: E402

HOST = "node-1"
LARGEST = 150_000  # bytes of a picture
# Name: the view's address, selectors of the first and the last visible element, width of the window in pixels.
PICTURES = {
    "report": ("", "header", "#times", 1160),
    "flamegraph": ("#stacks?process=rank", "#stacks", ".picture", 1160),
}
# Name: the recorded run, selector of the section, its largest height in pixels.
RECORDED = {
    "speed-h200": ("extra-sync", "#speed", 1000),
    "timeline-h200": ("extra-sync", "#device", 1000),
    "pipeline-h100": ("pipeline", "#pipeline", 1000),
    "timeline-eight-ranks": ("eight-ranks", "#device", 1000),
    "page-eight-ranks": ("eight-ranks", "#speed", 1000),
}
RECORDINGS = SOURCE / "tests/data/gpu_runs"
NARROW = {"narrow": ("", "header", "#environment", 360)}
MARGIN = 24


def demo(build):
    """The run directory of a fresh demo."""
    done = subprocess.run(
        [sys.executable, SOURCE / "tests/demo/run", build], stdout=subprocess.PIPE, text=True, check=False
    )
    found = re.search(r"^demo: report (.*)/report\.html$", done.stdout, re.M)
    if done.returncode != 0 or not found:
        sys.exit(f"the demo failed:\n{done.stdout}")
    return pathlib.Path(found[1])


def renamer(run):
    """A function that removes the names of this machine from a string."""
    host = re.escape(json.loads((run / "run.json").read_text(encoding="utf-8"))["host"])
    hosts = re.compile(rf"^{host}$|(?<=host ){host}(?![\w.-])|^{host}(?=-\d+\.)")
    paths = {str(SOURCE): "/home/user/xpurun", str(run): "/home/user/run", str(run.parent): "/home/user",
             os.path.expanduser("~"): "/home/user"}

    def rename(text):
        for path, other in paths.items():
            text = text.replace(path, other)
        return hosts.sub(HOST, text)

    return rename


def neutral(value, rename):
    """The same JSON without names of this machine."""
    if isinstance(value, dict):
        return {name: neutral(inner, rename) for name, inner in value.items()}
    if isinstance(value, list):
        return [neutral(inner, rename) for inner in value]
    return rename(value) if isinstance(value, str) else value


def neutral_copy(run, out):
    rename = renamer(run)
    for path in run.rglob("*.json"):
        content = neutral(json.loads(path.read_text(encoding="utf-8")), rename)
        if path == run / "run.json":
            content["env"] = {}
            content["cwd"] = str(out.parent.resolve())  # commands in the report are relative to it
        to = out / path.relative_to(run).with_name(rename(path.name))
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(json.dumps(content), encoding="utf-8")


def check(path, text):
    """Checks that no name of this machine is visible."""
    for word in (socket.gethostname(), str(SOURCE), os.path.expanduser("~"), tempfile.gettempdir()):
        if found := re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w.-])", text):
            sys.exit(
                f"{path}: names {word!r}, which is of this machine:"
                f" {text[max(0, found.start() - 60):found.end() + 60]!r}"
            )
    if path.stat().st_size > LARGEST:
        sys.exit(f"{path}: {path.stat().st_size} bytes, more than {LARGEST}")


def photograph(browser, url, path, scheme, shot):
    where, first, last, width = shot
    page = browser.page(scheme=scheme, width=width, height=900)
    page.open(url + where)
    page.evaluate("xpurun.ready.then(() => 1)")
    top, bottom = page.evaluate(
        f"[document.querySelector({json.dumps(first)}).getBoundingClientRect().top + scrollY,"
        f" document.querySelector({json.dumps(last)}).getBoundingClientRect().bottom + scrollY]")
    top = max(top - MARGIN, 0)
    path.write_bytes(small_png.shrink(page.picture(
        {"x": 0, "y": top, "width": width, "height": bottom + MARGIN / 2 - top, "scale": 1})))
    check(path, page.evaluate("document.body.innerText"))
    print(f"{path}: {path.stat().st_size} bytes")


def photograph_recorded(browser, build, folder, out):
    for name, (run, section, largest) in RECORDED.items():
        with tarfile.open(RECORDINGS / f"{run}.tar.xz") as tar:
            tar.extractall(folder)
        copy = folder / f"{run}-copy"
        shutil.copytree(folder / run, copy, dirs_exist_ok=True)
        neutral_copy(folder / run, copy)
        subprocess.run([build / "commands/xpurun", "report", copy, "--quiet"], check=True)
        page = browser.page(scheme="light", width=1160, height=900)
        page.open((copy / "report.html").as_uri())
        ready = f"document.querySelector({json.dumps(section)})"
        top, bottom = page.evaluate(
            f"new Promise(done => setTimeout(() => {{ const box = {ready}.getBoundingClientRect();"
            " done([box.top + scrollY, box.bottom + scrollY]); }, 1000))")
        path = out / f"{name}.png"
        path.write_bytes(small_png.shrink(page.picture(
            {"x": 0, "y": top, "width": 1160, "height": min(bottom - top, largest), "scale": 1})))
        check(path, page.evaluate("document.body.innerText"))
        print(f"{path}: {path.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build")
    parser.add_argument("--run", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=SOURCE / "docs/images")
    parser.add_argument("--narrow", action="store_true")
    parser.add_argument("--recorded", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, chromium.Browser() as browser:
        photograph_recorded(browser, args.build, pathlib.Path(folder), args.out)
    if args.recorded:
        return
    run = (args.run or demo(args.build)).resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "run"
        neutral_copy(run, copy)
        subprocess.run([args.build / "commands/xpurun", "report", copy, "--quiet"], check=True)
        page = copy / "report.html"
        # The next step names the directory in which its command works.
        text = page.read_text(encoding="utf-8").replace(str(copy.parent.resolve()), "/home/user")
        page.write_text(text, encoding="utf-8")
        url = page.as_uri()
        with chromium.Browser() as browser:
            for name, shot in (PICTURES | (NARROW if args.narrow else {})).items():
                photograph(browser, url, args.out / f"{name}.png", "light", shot)
                photograph(browser, url, args.out / f"{name}-dark.png", "dark", shot)


if __name__ == "__main__":
    main()
