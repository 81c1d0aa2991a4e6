"""Reads and writes *.stacks.json (docs/rundir.md): frames as columns of numbers, or in full in each thread."""

import json
import pathlib

TEXTS = ("kind", "func", "full_func", "file", "callee", "module", "build_id", "bias")
NUMBERS = ("line", "column", "end_line", "end_column", "offset", "begin")
FLAGS = ("eval", "inlined", "entry")


def numbers(text):
    return [int(n) for n in text.split()]


def frames_of(columns, strings):
    """The frames of a table, each a dictionary as in the full form."""
    columns = dict(columns)
    local_variables = columns.pop("locals", {})
    columns = {key: numbers(text) for key, text in columns.items()}
    out = []
    for row in range(len(columns.get("kind", ()))):
        frame = {}
        for key, column in columns.items():
            if column[row]:
                frame[key] = strings[column[row]] if key in TEXTS else key in FLAGS or column[row]
        if "bias" in frame:
            offset = frame.pop("offset", 0)
            frame["pc"] = f"{(int(frame.pop('bias'), 16) + offset) % 2**64:#x}"
            frame["offset"] = f"{offset:#x}"
        if "begin" in frame:
            frame["begin"] = f"{frame['begin']:#x}"
        if str(row) in local_variables:
            frame["locals"] = local_variables[str(row)]
        out.append(frame)
    return out


def full(stacks):
    """A process with the frames in its threads."""
    if stacks["schema"] != "xpurun.stacks/2":
        return stacks
    out = {key: value for key, value in stacks.items() if key not in ("frames", "strings")}
    table = frames_of(stacks.get("frames", {}), stacks.get("strings", []))
    out["threads"] = [{**t, "frames": [table[n] for n in numbers(t.get("frames", ""))]} for t in stacks["threads"]]
    return out


def read(path):
    return full(json.loads(pathlib.Path(path).read_text(encoding="utf-8")))


def compact(stacks):
    """The content of a file for a process with the frames in its threads."""
    strings, places = {"": 0}, {}
    columns = {key: [] for key in TEXTS + NUMBERS + FLAGS}
    local_variables = {}

    def place(frame):
        identity = json.dumps(frame, sort_keys=True)
        if identity in places:
            return places[identity]
        row = places[identity] = len(places)
        if "locals" in frame:
            local_variables[str(row)] = frame["locals"]
        offset = int(frame.get("offset", "0"), 16)
        values = {**frame, "offset": offset, "begin": int(frame.get("begin", "0"), 16)}
        if "pc" in frame:
            values["bias"] = f"{(int(frame['pc'], 16) - offset) % 2**64:#x}"
        for key, column in columns.items():
            value = values.get(key, "" if key in TEXTS else 0)
            column.append(strings.setdefault(value, len(strings)) if key in TEXTS else int(value))
        return row

    threads = [{**t, "frames": " ".join(str(place(f)) for f in t["frames"])} for t in stacks["threads"]]
    table = {key: " ".join(map(str, column)) for key, column in columns.items() if any(column)}
    if local_variables:
        table["locals"] = local_variables
    return {**stacks, "schema": "xpurun.stacks/2", "threads": threads, "frames": table, "strings": list(strings)}
