"""Checks that option table, help, manual pages, completions and error ids agree.

Usage: check_docs.py SOURCE_ROOT XPURUN
"""

import os
import pathlib
import re
import subprocess
import sys

import lint_support

VALUE = r"(?P<value>[A-Z]+(?:\[\.[A-Z]+\])?)"  # "DURATION", "JOB[.STEP]"
OPTION_LINE = re.compile(rf"^ {{2}}(?:-(?P<short>\w), | {{4}})--(?P<name>[a-z-]+)(?: {VALUE})?(?= |$)")
MAN_OPTION = re.compile(rf"^\.It (?:Fl (?P<short>\w) , )?Fl -(?P<name>[a-z-]+)(?: Ar {VALUE})?$")
ERROR_ID = re.compile(r'"(E-[A-Z-]+)"')
ROOMS = ["commands", "common", "launcher", "preload", "report", "stackdump"]


def output_of(program, *args):
    # The user's configuration must not affect the test.
    env = {name: value for name, value in os.environ.items() if not name.startswith("XPURUN_")}
    env |= {"COLUMNS": "80", "HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent"}
    return subprocess.run([program, *args], env=env, cwd="/", capture_output=True, text=True, check=True).stdout


def differences(what, expected, found):
    for missing in sorted(expected - found):
        yield f"{what}: {missing} is missing"
    for extra in sorted(found - expected):
        yield f"{what}: {extra} is not in the program"


def options_in(text, pattern):
    """{"out": "-o --out DIR"}"""
    matches = (pattern.match(line) for line in text.splitlines())
    return {m["name"]: " ".join(filter(None, [m["short"] and "-" + m["short"], "--" + m["name"], m["value"]]))
            for m in matches if m}


def defaults_in_help(text):
    joined = re.sub(r"\n {20,}", " ", text)
    return {f"--{name}: {default}"
            for name, default in re.findall(r"--([a-z-]+) [A-Z]+ .*?\(default: ([^)]+)\)", joined)}


def defaults_in_man(text):
    found = re.findall(r"^\.It (?:Fl \w , )?Fl -([a-z-]+) Ar(?:(?!^\.It)[\s\S])*?^Default: (\S+)\.$", text, re.M)
    return {f"--{name}: {default}" for name, default in found}


def commands_of(program):
    overview = output_of(program, "help").split("Common options")[0]
    return re.findall(r"^ {2}([a-z]+) {2,}", overview, re.M)


def check_options(man, program):
    for command in commands_of(program):
        text = output_of(program, "help", command)
        options = options_in(text, OPTION_LINE)
        if "help" not in options:
            yield f"help {command}: its options were not recognised"
        page = (man / f"xpurun-{command}.1").read_text()
        if not re.search(rf"^\.Xr xpurun-{command} 1", (man / "xpurun.1").read_text(), re.M):
            yield f"xpurun(1) does not refer to xpurun-{command}(1)"
        if len(options) == 1:
            continue
        yield from differences(
            f"xpurun-{command}(1)", set(options.values()), set(options_in(page, MAN_OPTION).values())
        )
        yield from differences(f"xpurun-{command}(1), defaults", defaults_in_help(text), defaults_in_man(page))


# Not in files, which may be another user's. So are all options that begin with nats.
ENVIRONMENT_ONLY = {"collect", "config", "lang", "node-rank", "nodes", "on-event", "plugin", "preload-library"}


def check_settings(man, program):
    keys = {line.split()[0] for line in output_of(program, "--print-config").splitlines()}
    page = (man / "xpurun-run.1").read_text()
    variables = {"XPURUN_" + key.upper().replace("-", "_") for key in keys}
    yield from differences("xpurun-run(1), ENVIRONMENT", variables, set(re.findall(r"^\.It Ev (\S+)$", page, re.M)))
    conf = (man / "xpurun.conf.5").read_text()
    in_files = {key for key in keys
                if key not in ENVIRONMENT_ONLY and not key.startswith("nats")}
    yield from differences("xpurun.conf(5)", in_files, set(re.findall(r"^\.It Cm (\S+)$", conf, re.M)))


def check_commands(man, program):
    commands = set(commands_of(program))
    page = (man / "xpurun.1").read_text().split(".Sh OPTIONS")[0]
    yield from differences("xpurun(1)", commands, set(re.findall(r"^\.It Cm ([a-z]+)", page, re.M)))


def offered(program, *words):
    """What completion offers for the last of these words."""
    return set(output_of(program, "__complete", "bash", *words).splitlines()[1:])


def check_completions(program):
    commands = commands_of(program)
    yield from differences("completions", set(commands), offered(program, ""))
    for command in commands:
        options = {f"--{name}" for name in options_in(output_of(program, "help", command), OPTION_LINE)}
        yield from differences(f"completions of {command}", options, offered(program, command, "-"))


def check_error_ids(root, man):
    used = set()
    for room in ROOMS:
        for path in (root / room).rglob("*"):
            if path.suffix in (".h", ".cpp"):
                used |= set(ERROR_ID.findall("\n".join(
                    line for line in path.read_text().splitlines() if not line.lstrip().startswith("//"))))
    page = (man / "xpurun-errors.7").read_text()
    documented = set(re.findall(r"^\.It Sy (E-[A-Z-]+)$", page, re.M))
    yield from differences("xpurun-errors(7)", used, documented)


def check_verdicts(root, man):
    """Ids and states agree in the code, in docs/verdicts.md and in xpurun-verdicts(7)."""
    words = r"(?:hang|crash|exit|interrupted|none|running)\.[a-z_]+"
    used = set(re.findall(rf'"({words})"', (root / "report" / "diagnosis" / "vocabulary.h").read_text()))
    documented = set(re.findall(rf"^\| `({words})`", (root / "docs" / "verdicts.md").read_text(), re.M))
    page = (man / "xpurun-verdicts.7").read_text()
    yield from differences("docs/verdicts.md", used, documented)
    yield from differences("xpurun-verdicts(7)", used, set(re.findall(rf"^\.It Sy ({words})$", page, re.M)))
    states = re.search(r"^## States$([\s\S]*?)^## ", (root / "docs" / "verdicts.md").read_text(), re.M)[1]
    yield from differences("xpurun-verdicts(7), states", set(re.findall(r"^\| `([a-z]+)`", states, re.M)),
                           set(re.findall(r"^\.It Cm ([a-z]+)$", page.split(".Ss States")[1], re.M)))


def check_verdict_numbers(root, man):
    """The thresholds of the state busy: both pages have the numbers of the code."""
    code = (root / "report" / "diagnosis" / "rank_view.cpp").read_text()

    def constant(name):
        return re.search(rf"constexpr double {name} = ([^;]+);", code)[1]

    io = {"1 << 20": "1 MiB/s"}[constant("kBusyIoBytesPerSecond")]
    moved = {"0.5": "half the timeout"}[constant("kMovedShare")]
    wanted = [f"at least {constant('kBusyCpuShare')} of a core", f"at least {io}", f"within {moved}"]
    for page in (root / "docs" / "verdicts.md", man / "xpurun-verdicts.7"):
        text = " ".join(page.read_text().split())
        for phrase in wanted:
            if phrase not in text:
                yield f"{page.name}: the state busy lacks what the code says: {phrase}"


def check_readmes(root):
    """The Chinese pages have the parts, commands, table rows and links of the English ones."""
    def skeleton(name):
        text = (root / name).read_text().replace(".zh.md)", ".md)")
        blocks = [re.sub(r" +#.*", "", block) for block in re.findall(r"^```\n([\s\S]*?)^```", text, re.M)
                  if not block.startswith("xpurun: ")]  # what the program prints is in the reader's language
        links = re.findall(r"\]\(([^)]+)\)", text.split("\n## ", 1)[-1])
        first_cells = re.findall(r"^\| (`[^|]*`|[A-Za-z_.-]+) \|", text, re.M)
        return {"headings": len(re.findall(r"^## ", text, re.M)), "blocks": blocks, "links": links,
                "options and commands": sorted(set(re.findall(r"`((?:xpurun|--|\./)[^`…]*)", text))),
                "rows": len(re.findall(r"^\|", text, re.M)), "first cells": first_cells,
                "points": len(re.findall(r"^- ", text, re.M))}

    for page in ("README.md", "docs/commands.md"):
        other = page.replace(".md", ".zh.md")
        english, chinese = skeleton(page), skeleton(other)
        for part, of_english in english.items():
            if of_english != chinese[part]:
                yield f"{other}: its {part} are not those of {page}: {chinese[part]}, {of_english}"


def check_faults(root, program):
    """The number of faults of the self-test, of which the first is none."""
    faults = len(re.findall(r"^  \S", output_of(program, "selftest", "--list"), re.M)) - 1
    for page in ("docs/commands.md", "docs/commands.zh.md", "CHANGELOG.md"):
        for line in (root / page).read_text().splitlines():
            told = re.search(r"(\d+) (?:faults, one at a time|种故障)", line)
            if told and int(told[1]) != faults:
                yield f"{page}: {told[1]} faults, but xpurun selftest --list has {faults}"


def check_recipes(root, program):
    """Every command line in the READMEs and in docs/ names options that its command has."""
    options = {}
    for command in commands_of(program):
        options[command] = {f"--{name}" for name in options_in(output_of(program, "help", command), OPTION_LINE)}
    known = set().union(*options.values())
    for path in [root / "README.md", root / "README.zh.md", *sorted((root / "docs").rglob("*.md"))]:
        text = path.read_text()
        lines = [line for block in re.findall(r"^```\w*\n([\s\S]*?)^```", text, re.M)
                 for line in re.sub(r"\\\\\n", " ", block).splitlines()] + re.findall(r"`([^`\n]+)`", text)
        for line in lines:
            for ours in re.findall(r"(?:^|[\s/])xpurun(?=\s)((?:(?! -- |\|).)*)", line):
                words = re.sub(r"\s#.*", "", ours).split()
                command = words[0] if words and words[0] in options else "run"
                for word in words:
                    name = word.split("=")[0].rstrip("`,.")
                    if name.startswith("--") and len(name) > 2 and name not in options[command] | {"--help"}:
                        yield f"{path.name}: xpurun {command} has no {name}: {line.strip()}"
        # Options mentioned without a command must exist in some command.
        if path.name.startswith("README"):
            for name in re.findall(r"`(--[a-z-]+)[^`]*`", text):
                if name not in known:
                    yield f"{path.name}: there is no option {name}"


def check_pages(man):
    pages = sorted(man.glob("*.[157]"))
    version = re.search(r"^  version: '(.*)',", (man.parent / "meson.build").read_text(), re.M)[1]
    for page in pages:
        if f"\n.Os xpurun {version}\n" not in page.read_text():
            yield f"{page.name}: the footer does not name xpurun {version}"
    names = {(page.stem, page.suffix[1:]) for page in pages}
    for page in pages:
        for name, section in re.findall(r"^\.Xr (xpurun\S*) (\d)", page.read_text(), re.M):
            if (name, section) not in names:
                yield f"{page.name}: there is no {name}({section})"
    lint = subprocess.run(["mandoc", "-Tlint", *map(str, pages)], capture_output=True, text=True, check=False)
    # Whether xpurun's own pages are installed on this machine does not matter; see above.
    meant = ("referenced manual not found: Xr xpurun", "operating system explicitly specified: Os xpurun")
    yield from (line for line in (lint.stdout + lint.stderr).splitlines() if not any(m in line for m in meant))


def check_schemas(root, man):
    used = set()
    for path in [*(root / "common" / "model").rglob("*.h"), root / "report" / "render" / "json.h"]:
        used |= set(re.findall(r'"(xpurun\.[a-z]+/\d+)"', path.read_text()))
    for page in (man / "xpurun-rundir.5", root / "docs" / "rundir.md"):
        yield from differences(page.name, used, set(re.findall(r"xpurun\.[a-z]+/\d+", page.read_text())))


def main():
    root, program = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    man = root / "man"
    lint_support.need_tool("mandoc")
    found = [
        *check_options(man, program),
        *check_settings(man, program),
        *check_commands(man, program),
        *check_completions(program),
        *check_error_ids(root, man),
        *check_pages(man),
        *check_schemas(root, man),
        *check_verdicts(root, man),
        *check_verdict_numbers(root, man),
        *check_readmes(root),
        *check_faults(root, program),
        *check_recipes(root, program),
    ]
    print("\n".join(found) or "table, help, manual pages and completions agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
