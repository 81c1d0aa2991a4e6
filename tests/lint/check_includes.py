"""Fails if the includes break the law of the rooms: which room may include which (docs/ARCHITECTURE.md), which
sub-room may include which inside a room, and no include cycle between units or between folders. A unit is the .h and
.cpp of one stem.

Includes of ours are rooted at the repository, so the first path components name room and sub-room. Heavy third-party
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
    "commands": {"commands", "launcher", "stackdump", "report", "templates", "common/base", "common/model",
                 "common/wire"},
}
# Sub-rooms that a sub-room may include besides itself. "." are the files of the room itself.
SUBROOMS = {
    "launcher": {
        "os": set(),
        "http": {"os"},
        "output": {"os"},
        "processes": {"os"},
        "relay": {"os"},
        "runs": {"os"},
        "spans": {"collect", "mpi", "os", "processes", "storage"},
        "spawn": {"os"},
        "speed": set(),
        "storage": {"os", "runs"},
        "mpi": {"os", "processes", "spawn"},
        "heap": {"mpi", "os", "processes"},
        "collect": {"os", "storage"},
        "metrics": {"collect"},
        "options": {"spawn"},
        "control": {"collect", "http", "os"},
        "stacks": {"os", "processes", "spawn"},
        "watch": {"options", "os", "processes"},
        "evidence": {"os", "spawn"},
        "machine": {"os", "processes", "spawn", "storage"},
        "nodes": {"options", "os", "spawn"},
        "journal": {"options", "os", "spawn", "storage"},
        "timing": {"collect", "http", "metrics", "options", "os", "processes", "speed", "storage"},
        "capture": {"collect", "evidence", "metrics", "os", "processes", "spawn", "storage", "timing"},
        "dumps": {"journal", "options", "os", "processes", "spawn", "stacks", "storage"},
        "notify": {"journal", "options", "os", "output", "processes", "spawn"},
        "ending": {"journal", "options", "os", "processes", "storage"},
        "supervise": {"capture", "collect", "control", "dumps", "ending", "evidence", "heap", "http", "journal",
                      "machine", "mpi", "nodes", "notify", "options", "os", "output", "processes", "relay", "spans",
                      "spawn", "speed", "storage", "timing", "watch"},
    },
    "commands": {
        "cli": set(),
        "burn": {".", "analyze", "replay"},
        "doctor": {".", "burn"},
        "selftest": {"."},
        "analyze": {"."},
        "attach": {"."},
        "profile": {".", "analyze"},
        "replay": {".", "analyze"},
        "runs": {"."},
        "stacks": {"."},
        ".": {"cli"},
    },
    "preload": {
        "core": set(),
        "process": {"core"},
        "cuda": {"core"},
        "record": {"core", "cuda"},
        "nccl_profiler": {"core", "record"},
        "nccl": {"core", "cuda", "record", "nccl_profiler"},
        "hooks": {"core", "cuda", "record", "nccl"},
        "poll": {"core", "cuda", "record", "nccl", "nccl_profiler"},
        "capture": {"core", "process"},
        "marks": {"core", "process", "record"},
        "mpi": {"core", "nccl", "process"},
        "heap": {"core", "process"},
        "cupti": {"core"},
        ".": {"capture", "core", "heap", "marks", "mpi", "process", "hooks", "poll", "nccl_profiler"},
    },
    "common/base": {
        ".": set(),
        "os": {"."},
        "output": {".", "os"},
    },
    "common/model": {
        "json": set(),
        "secrets": set(),
        ".": {"secrets"},
        "evidence": {".", "json", "secrets", "speed"},
        "memory": {".", "json"},
        "notify": {"."},
        "stacks": {".", "json", "secrets"},
        "speed": {"."},
        "timing": {".", "speed"},
        "resources": {".", "speed", "timing"},
        "job": {"."},
        "language": {".", "speed", "timing"},
        "documents": {".", "evidence", "job", "json", "notify", "speed"},
    },
    "stackdump": {
        "memory": set(),
        "ptrace": {"memory"},
        "native": {"memory", "ptrace"},
        "cpython": {"memory", "native"},
        "core": {"memory", "native", "ptrace"},
        "libdw": {"native"},
        "resolve": {"cpython", "libdw", "memory", "native", "ptrace"},
        "debuggers": {"native", "resolve"},
        ".": {"core", "cpython", "debuggers", "memory", "native", "ptrace", "resolve"},
    },
    "report": {
        "diagnosis": {"speed"},
        "flight_recorder": {"diagnosis"},
        "events": set(),
        "import": set(),
        "gpu_work": {"events"},
        "timeline": {"events", "flamegraph", "gpu_work"},
        "tree": set(),
        "flamegraph": {"tree"},
        "memory": {"diagnosis", "flamegraph", "flight_recorder", "operations", "profile"},
        "profile": {"flamegraph", "speed", "tree"},
        "query": {"diagnosis", "events", "memory", "speed", "timeline"},
        "operations": {"events", "gpu_work", "speed", "timeline"},
        "compare": {"operations", "speed"},
        "pipeline": {"events", "flamegraph", "operations", "speed", "timeline"},
        "replay": {"events", "operations", "speed"},
        "speed": {"events"},
        "run": {"diagnosis", "flamegraph", "tree"},
        "nodes": {"diagnosis", "events", "run"},
        "render": {"compare", "diagnosis", "flamegraph", "memory", "operations", "pipeline", "profile", "run", "speed",
                   "tree"},
        "build": {"compare", "diagnosis", "events", "flamegraph", "flight_recorder", "gpu_work", "import", "memory",
                  "nodes", "operations", "pipeline", "profile", "render", "replay", "run", "speed", "timeline", "tree"},
        "formats": {"build", "flamegraph", "import", "render", "tree"},
    },
}
# More files than this in a folder hide what belongs together.
MOST_FILES = 25
WIRE_SYSTEM = {"stdint.h", "stddef.h", "atomic"}
# The preload has no C++ standard library to call; these are headers without code in one.
PRELOAD_SYSTEM = re.compile(
    r"^([a-z0-9_]+|sys/[a-z_]+|linux/[a-z_]+|asm/[a-z_]+)\.h$|"
    r"^(atomic|initializer_list|type_traits|cstdint|cstddef)$|^(cuda|cublas|nccl)"
)
# Templates over JSON, only for the .cpp files of the same room.
IMPLEMENTATION_HEADERS = {"common/model/exception_fields.h", "common/model/json_visitors.h",
                          "common/model/stacks/stack_fields.h", "common/model/speed/gpu_capture_fields.h",
                          "common/model/speed/operation_fields.h",
                          "common/model/verdict_fields.h",
                          "launcher/nodes/node_fields.h"}
# Their users outside of common/model: messages between xpurun's programs, with the same parts as the files.
MESSAGE_ROOMS = {"launcher/nodes", "launcher/nodes/agent/protocol", "launcher/output"}
HEAVY = re.compile(r"^(nlohmann/json\.hpp|boost/|spdlog/|kainjow/|libunwind|xxhash|zstd\.h|zlib\.h|nats/)")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.M)


def room_of(path):
    parts = path.parts
    return "/".join(parts[:2]) if parts[0] == "common" else parts[0]


def subroom_of(room, path):
    below = path.relative_to(room).parts
    return below[0] if len(below) > 1 else "."


def sources(root):
    """(path relative to the root, room, [(kind, name)]) of every source file."""
    for room in MAY_INCLUDE:
        for path in sorted((root / room).rglob("*")):
            if path.suffix in (".h", ".cpp", ".c"):
                yield path.relative_to(root), room, INCLUDE.findall(path.read_text())


def wrong_rooms(root, files):
    for where, room, includes in files:
        for kind, name in includes:
            if kind == '"':
                target = pathlib.PurePath(name)
                if room_of(target) not in MAY_INCLUDE[room]:
                    yield f"{where}: {room} may not include {name}"
                elif name in IMPLEMENTATION_HEADERS and not is_implementation(where, room, name):
                    yield f"{where}: {name} is for .cpp files of {room_of(target)} only"
                elif not (root / name).exists() and not name.startswith("templates/"):
                    yield f"{where}: include {name} is not rooted at the repository"
                elif room in SUBROOMS and room_of(target) == room:
                    yield from wrong_subroom(where, room, target)
            elif room == "common/wire" and name not in WIRE_SYSTEM:
                yield f"{where}: wire headers may include {sorted(WIRE_SYSTEM)}, not <{name}>"
            elif room == "preload" and not PRELOAD_SYSTEM.match(name):
                yield f"{where}: the preload may not include <{name}>"
            elif where.suffix == ".h" and HEAVY.match(name) and str(where) not in IMPLEMENTATION_HEADERS:
                yield f"{where}: heavy header <{name}> belongs into a .cpp"


def is_implementation(where, room, name):
    own_room = (room == room_of(pathlib.PurePath(name)) or where.parts[0] == "tests"
                or str(where.parent) in MESSAGE_ROOMS)
    return own_room and (where.suffix == ".cpp" or str(where) in IMPLEMENTATION_HEADERS)


def wrong_subroom(where, room, target):
    source, wanted = subroom_of(room, where), subroom_of(room, target)
    if source not in SUBROOMS[room]:
        yield f"{where}: the sub-room {room}/{source} is not in the table of {pathlib.Path(__file__).name}"
    elif wanted != source and wanted not in SUBROOMS[room][source]:
        yield f"{where}: {room}/{source} may not include {room}/{wanted} ({target.name})"


def edges_of(files):
    """unit -> units that it includes."""
    edges = {}
    for where, _, includes in files:
        unit = str(where.with_suffix(""))
        targets = {str(pathlib.PurePath(name).with_suffix("")) for kind, name in includes if kind == '"'}
        edges.setdefault(unit, set()).update(targets - {unit})
    return edges


def cycles(edges):
    """Strongly connected components of more than one unit (Tarjan), each a sorted list."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []

    def visit(unit):
        index[unit] = low[unit] = len(index)
        stack.append(unit)
        on_stack.add(unit)
        for target in sorted(edges.get(unit, ())):
            if target not in index:
                visit(target)
                low[unit] = min(low[unit], low[target])
            elif target in on_stack:
                low[unit] = min(low[unit], index[target])
        if low[unit] == index[unit]:
            component = []
            while not component or component[-1] != unit:
                component.append(stack.pop())
                on_stack.discard(component[-1])
            if len(component) > 1:
                found.append(sorted(component))

    for unit in sorted(edges):
        if unit not in index:
            visit(unit)
    return sorted(found)


def wrong_cycles(edges):
    for cycle in cycles(edges):
        inner = sorted(f"{a} -> {b}" for a in cycle for b in edges[a] if b in cycle)
        yield f"include cycle of {len(cycle)} units:\n  " + "\n  ".join(inner)


def folder_of(include):
    return str(pathlib.PurePath(include).parent)


def folder_edges(files):
    """folder -> folders that it includes, at the depth at which the files lie."""
    edges = {}
    for where, _, includes in files:
        folder = str(where.parent)
        targets = {folder_of(name) for kind, name in includes if kind == '"'}
        edges.setdefault(folder, set()).update(targets - {folder})
    return edges


def wrong_folder_cycles(edges):
    """Folders that include each other."""
    for cycle in sorted(sorted(c) for c in cycles(edges)):
        inner = sorted(f"{a} -> {b}" for a in cycle for b in edges[a] if b in cycle)
        yield f"include cycle of {len(cycle)} folders:\n  " + "\n  ".join(inner)


def full_folders(files):
    counts = {}
    for where, _, _ in files:
        counts[str(where.parent)] = counts.get(str(where.parent), 0) + 1
    for folder, count in sorted(counts.items()):
        if count > MOST_FILES:
            yield f"{folder}: {count} source files, {MOST_FILES} at most; make sub-rooms"


def rooms_in_words(text):
    """docs/ROOMS.md: {room: the names between backquotes in its section}"""
    sections = re.findall(r"^## `(\w+)/`(.*?)(?=^## |\Z)", text, re.M | re.S)
    return {room: set(re.findall(r"`([\w/.]+)`", section)) for room, section in sections}


def wrong_words(words, folders):
    """`folders`: {room: folders with sources below it}"""
    for room, named in words.items():
        # A folder is named by its path in the room, or by its own name beside that of the folder above.
        for folder in sorted(folders[room]):
            if folder not in named and folder.rpartition("/")[2] not in named:
                yield f"docs/ROOMS.md: {room}/{folder} is missing"
    for room, subs in SUBROOMS.items():
        for sub in sorted(set(subs) - {"."} - folders.get(room, set(subs))):
            yield f"SUBROOMS: there is no {room}/{sub}"


def main():
    root = pathlib.Path(sys.argv[1])
    files = list(sources(root))
    folders = {}
    for path, *_ in files:
        room, *below = path.parent.parts
        folders.setdefault(room, set()).update("/".join(below[:i]) for i in range(1, len(below) + 1))
    folders["common"] -= {"base", "model", "wire"}  # rooms of their own
    words = rooms_in_words((root / "docs/ROOMS.md").read_text())
    found = [*wrong_rooms(root, files), *wrong_cycles(edges_of(files)), *wrong_folder_cycles(folder_edges(files)),
             *full_folders(files), *wrong_words(words, folders)]
    print("\n".join(found) or "includes obey the table")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
