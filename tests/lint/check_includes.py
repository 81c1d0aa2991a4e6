"""Fails if a room includes what DESIGN's table of rooms (docs/ARCHITECTURE.md) does not allow.

Includes of ours are rooted at the repository, so the first path component names the room. Heavy third-party
headers may stand in .cpp files only, so that a rebuild stays quick.
"""

import pathlib
import re
import sys

MAY_INCLUDE = {
    "common/wire": {"common/wire"},
    "common/base": {"common/base"},
    "common/model": {"common/model", "common/base", "common/wire"},
    "stackdump": {"stackdump", "common/base", "common/model"},
    "report": {"report", "templates", "common/base", "common/model", "common/wire"},
    "preload": {"preload", "common/wire"},
    "launcher": {"launcher", "stackdump", "report", "templates", "common/base", "common/model", "common/wire"},
}
WIRE_SYSTEM = {"stdint.h", "stddef.h", "atomic"}
# The preload has no C++ standard library to call; these are headers without code in one.
PRELOAD_SYSTEM = re.compile(
    r"^([a-z0-9_]+|sys/[a-z_]+|linux/[a-z_]+|asm/[a-z_]+)\.h$|"
    r"^(atomic|type_traits|cstdint|cstddef)$|^(cuda|cublas|nccl)"
)
HEAVY = re.compile(r"^(nlohmann/json\.hpp|boost/|spdlog/|kainjow/|libunwind|xxhash|zstd\.h|zlib\.h)")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def room_of(path):
    parts = path.parts
    return "/".join(parts[:2]) if parts[0] == "common" else parts[0]


def problems(root):
    for room in MAY_INCLUDE:
        for path in sorted((root / room).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".c"):
                continue
            where = path.relative_to(root)
            for kind, name in INCLUDE.findall(path.read_text()):
                if kind == '"':
                    target = room_of(pathlib.PurePath(name))
                    if target not in MAY_INCLUDE[room]:
                        yield f"{where}: {room} may not include {name}"
                    elif not (root / name).exists() and not name.startswith("templates/"):
                        yield f"{where}: include {name} is not rooted at the repository"
                elif room == "common/wire" and name not in WIRE_SYSTEM:
                    yield f"{where}: wire headers may include {sorted(WIRE_SYSTEM)}, not <{name}>"
                elif room == "preload" and not PRELOAD_SYSTEM.match(name):
                    yield f"{where}: the preload may not include <{name}>"
                elif path.suffix == ".h" and HEAVY.match(name):
                    yield f"{where}: heavy header <{name}> belongs into a .cpp"


def main():
    found = list(problems(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "includes obey the table")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
