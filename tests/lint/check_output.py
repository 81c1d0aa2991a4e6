"""Text for people reaches standard output and standard error through common/base/output/terminal.h alone, which
makes it safe. JSON becomes text in common/model/json/json_text.h alone: nlohmann's dump() throws on a name that is not
UTF-8.

Usage: check_output.py SOURCE_ROOT
"""

import pathlib
import re
import sys

DIRECT = re.compile(r"\bwrite(?:_all)?\(\s*STD(?:OUT|ERR)_FILENO|\bf?puts\(|\bstd::(?:cout|cerr|clog)\b|\bfmt::print\(")
JSON_DUMP = re.compile(r"\.dump\((?:-?\d[^)]*)?\)")
# Draws on the whole screen; live_status.cpp has sanitised the text.
ALLOWED = {"launcher/output/screen.cpp"}
# The check runs in a child process: one byte through a pipe that stands in for its standard output.
ALLOWED |= {"commands/doctor/ptrace_check.cpp"}


def direct_output(root):
    for room in ("commands", "launcher", "report", "stackdump"):
        for path in sorted((root / room).rglob("*.cpp")):
            name = path.relative_to(root).as_posix()
            if name in ALLOWED:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if JSON_DUMP.search(line):
                    yield f"{name}:{number}: use model::json_text(): {line.strip()}"
                if room != "stackdump" and DIRECT.search(line.split("//")[0]):
                    yield f"{name}:{number}: use base::write_stderr() or base::put_out(): {line.strip()}"


def main():
    found = list(direct_output(pathlib.Path(sys.argv[1])))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
