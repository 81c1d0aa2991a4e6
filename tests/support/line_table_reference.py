"""Writes the line tables of the standard library, with the interpreter's own answer for each instruction, to the file
named as first argument: of every n-th module, n being the second argument. For 3.8 and later; the format is described
in tests/unit/stackdump/line_table_probe.cpp. Prints the number of modules."""

import array
import dis
import os
import sys
import types

MINOR = sys.version_info[1]
SKIPPED = {"site-packages", "dist-packages", "__pycache__"}
if not os.environ.get("XPURUN_TEST_LIBRARY_TESTS"):
    SKIPPED |= {"test", "tests", "idle_test"}


def walk(code):
    yield code
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            for one in walk(c):
                yield one


def sources():
    root = os.path.dirname(os.__file__)
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - SKIPPED)
        for name in sorted(files):
            if name.endswith(".py"):
                yield os.path.join(folder, name)


def locations(code, n):
    out = array.array("i")
    for line, end_line, column, end_column in code.co_positions():
        out.extend((line or 0, end_line or 0, 0 if column is None else column + 1,
                    0 if end_column is None else end_column + 1))
    assert len(out) == 4 * n
    return 2, code.co_linetable, out


def linetable(code, n):
    out = array.array("i", bytes(16 * n))
    for start, end, line in code.co_lines():
        for i in range(start // 2, end // 2):
            out[4 * i] = line or 0
    return 1, code.co_linetable, out


def lnotab(code, n):
    # This interpreter has no list of lines. dis.findlinestarts() is its own decoder; it omits entries
    # # that repeat the previous line, which does not matter here.
    starts = dict(dis.findlinestarts(code))
    out = array.array("i", bytes(16 * n))
    line = code.co_firstlineno
    for i in range(n):
        line = starts.get(2 * i, line)
        out[4 * i] = line
    return 0, code.co_lnotab, out


decode = locations if MINOR >= 11 else linetable if MINOR == 10 else lnotab
modules = 0
with open(sys.argv[1], "wb") as out:
    for path in list(sources())[::int(sys.argv[2])]:
        try:
            with open(path, "rb") as f:
                tree = compile(f.read(), path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, FileNotFoundError):
            continue  # invalid on purpose, or a dangling link
        modules += 1
        for code in walk(tree):
            n = len(code.co_code) // 2
            kind, table, want = decode(code, n)
            out.write(array.array("i", (kind, code.co_firstlineno, n, len(table))).tobytes())
            out.write(table)
            out.write(want.tobytes())
print(modules)
