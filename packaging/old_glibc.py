"""Lets ELF files that were linked with this machine's glibc run with glibc 2.28 and later.

The linker notes the newest version of each function: dlopen@GLIBC_2.34. The same function has an older version too
(dlopen@GLIBC_2.2.5), which every glibc has and which files that were linked long ago refer to. So each reference to a
version after OLDEST becomes one to the newest version up to OLDEST. A function that has none (gettid, stat) becomes a
reference without a version, which libc satisfies if it has the function, and libxpurun_glibc.so otherwise.

Only tables of fixed size are changed, in place: .gnu.version (a number for each symbol) and .gnu.version_r (the
required versions, by file).
"""

import dataclasses
import re
import struct
import subprocess

from elf import output_of

OLDEST = (2, 28)
FUNCTIONS = "libxpurun_glibc.so"
PRELOAD = "libxpurun_preload.so"
# The preload library for glibc before 2.34, which the launcher chooses there.
OLD_PRELOAD = PRELOAD + ".glibc-2.28"
# Loaded into processes that do not load libxpurun_glibc.so; that library itself is one of them.
IN_OTHERS = re.compile(r"libxpurun_")
# Libraries of glibc 2.28 whose functions are in libc.so.6 since 2.34, and which our programs load.
MOVED = {
    "libpthread.so.0": re.compile(r"(__)?(pthread|sem)_\w+"),
    "libdl.so.2": re.compile(r"dl(addr|addr1|close|error|info|mopen|open|sym|vsym)"),
}
# What the start code calls, of libc.so.6 at any time.
OF_LIBC = re.compile(r"__libc_start_main")
MOVED_IN = "GLIBC_2.34"
GLOBAL = 1  # in .gnu.version: a symbol without a version
FIRST = "GLIBC_2.2.5"  # the first version of x86-64


def number(version):
    """(2, 34) of GLIBC_2.34, None of a version of another library and of GLIBC_PRIVATE."""
    found = re.fullmatch(r"GLIBC_(\d+(?:\.\d+)+)", version)
    return tuple(map(int, found[1].split("."))) if found else None


def is_too_new(version):
    return (number(version) or (0,)) > OLDEST


def elf_hash(name):
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high & 0xFFFFFFFF
    return value


@dataclasses.dataclass
class Required:
    """An entry of .gnu.version_r: a version of a file. The places are offsets in the ELF file."""

    file: str
    version: str
    index: int
    place: int
    head: int  # the entry of the file, which counts its versions


class ElfFile:
    """The dynamic symbols of a 64-bit little-endian ELF file and the versions that they refer to, to be changed."""

    def __init__(self, path):
        self.data = bytearray(path.read_bytes())
        self.sections = self._sections()
        self.strings = self.sections[".dynstr"]
        self.required = list(self._read_required())

    def _sections(self):
        offset, = struct.unpack_from("<Q", self.data, 40)
        size, count, names = struct.unpack_from("<HHH", self.data, 58)
        heads = [struct.unpack_from("<IIQQQQ", self.data, offset + i * size) for i in range(count)]
        return {self._text(heads[names][4] + head[0]): (head[4], head[5]) for head in heads}

    def _text(self, place):
        return self.data[place:self.data.index(0, place)].decode()

    def _string(self, offset):
        return self._text(self.strings[0] + offset)

    def _read_required(self):
        if ".gnu.version_r" not in self.sections:
            return
        head, _ = self.sections[".gnu.version_r"]
        while True:
            _, count, file, first, following = struct.unpack_from("<HHIII", self.data, head)
            place = head + first
            for _ in range(count):
                _, _, index, name, step = struct.unpack_from("<IHHII", self.data, place)
                yield Required(self._string(file), self._string(name), index, place, head)
                place += step
            if not following:
                return
            head += following

    def needed(self):
        """Names of the needed libraries, in their order."""
        start, size = self.sections[".dynamic"]
        entries = struct.iter_unpack("<QQ", self.data[start:start + size])
        return [self._string(value) for tag, value in entries if tag == 1]

    def is_program(self):
        return ".interp" in self.sections

    def symbols(self):
        """Number, name, whether it may be missing, and version's index of every dynamic symbol."""
        start, size = self.sections[".dynsym"]
        versions, _ = self.sections.get(".gnu.version", (0, 0))
        for i in range(1, size // 24 if versions else 0):
            name, info, _, section = struct.unpack_from("<IBBH", self.data, start + 24 * i)
            index, = struct.unpack_from("<H", self.data, versions + 2 * i)
            yield i, self._string(name), info >> 4 == 2 and section == 0, index & 0x7FFF

    def set_version(self, symbol, index):
        struct.pack_into("<H", self.data, self.sections[".gnu.version"][0] + 2 * symbol, index)

    def index_of(self, version, file):
        """The index of a version of the file; a missing one takes an entry that is too new. None: no text is there."""
        for entry in self.required:
            if (entry.file, entry.version) == (file, version):
                return entry.index
        start, size = self.strings
        place = bytes(self.data[start:start + size]).find(version.encode() + b"\0")
        entry = next((entry for entry in self.required if entry.file == file and is_too_new(entry.version)), None)
        return None if place < 0 or entry is None else self._replace(entry, version, place)

    def _replace(self, entry, version, name):
        """A new index for the version, because symbols still have the one of the entry."""
        index = max(other.index for other in self.required) + 1
        struct.pack_into("<IHHI", self.data, entry.place, elf_hash(version), 0, index, name)
        entry.version, entry.index = version, index
        return index

    def forget_too_new(self):
        """Takes the entries that are too new out of the chains; their symbols must have other versions by now."""
        for head in {entry.head for entry in self.required}:
            kept = [entry.place for entry in self.required if entry.head == head and not is_too_new(entry.version)]
            if not kept:
                raise SystemExit("old_glibc: no old version of a library is left")
            struct.pack_into("<H", self.data, head + 2, len(kept))
            struct.pack_into("<I", self.data, head + 8, kept[0] - head)
            for place, following in zip(kept, [*kept[1:], None]):
                struct.pack_into("<I", self.data, place + 12, following - place if following else 0)
        self.required = [entry for entry in self.required if not is_too_new(entry.version)]


def versions_here():
    """{function: its versions} of this machine's glibc, which has all older versions too."""
    found = {}
    for library in ("libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"):
        path = output_of("gcc", f"-print-file-name={library}").strip()
        for name, version in re.findall(r" (\w+)@@?(GLIBC_[\w.]+)$", defined(path), re.M):
            found.setdefault(name, set()).add(version)
    return found


def defined(path):
    return subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", str(path)], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def exported(path):
    return set(re.findall(r" [A-Z] (\w+)$", defined(path), re.M))


def home_of(name, version):
    """The library of glibc 2.28 that has the function, "" if libc.so.6 or libm.so.6, None if not known."""
    for library, names in MOVED.items():
        if names.fullmatch(name):
            return library
    return None if version == MOVED_IN and not OF_LIBC.fullmatch(name) else ""


def change(elf, known, ours):
    """Changes the references of the file; yields what is wrong."""
    too_new = {entry.index: (entry.file, entry.version) for entry in elf.required if is_too_new(entry.version)}
    for symbol, name, may_be_missing, index in elf.symbols():
        if index not in too_new:
            continue
        file, newest = too_new[index]
        old = sorted((version for version in known.get(name, ()) if number(version) and not is_too_new(version)),
                     key=number)
        if not old:
            elf.set_version(symbol, GLOBAL)
            if name not in ours and not may_be_missing:
                yield f"{name}@{newest} is neither in glibc 2.28 nor in {FUNCTIONS}"
            continue
        if home_of(name, newest) is None:
            yield f"{name}@{newest} is in a library of glibc 2.28 that is not loaded"
        version = elf.index_of(old[-1], file)
        # Without a version, the loader takes a function's first version, if that is FIRST, else the default version.
        if version is None and FIRST in old[:-1]:
            yield f"{name}@{old[-1]} cannot be referred to: the file has no text {old[-1]}"
        elf.set_version(symbol, version or GLOBAL)
    elf.forget_too_new()


def wrong_order(elf):
    """What is wrong with the libraries that a program of ours needs: libc first, so that its functions win."""
    needed = elf.needed()
    wanted = [*MOVED, "libc.so.6", FUNCTIONS]
    if [name for name in needed if name in wanted] != wanted:
        yield f"needs {', '.join(needed)}, and not in this order: {', '.join(wanted)}"


def lower(paths, functions):
    """Changes the ELF files. functions: libxpurun_glibc.so. Ends the program if a file would not run."""
    known, ours = versions_here(), exported(functions)
    wrong = []
    for path in paths:
        elf = ElfFile(path)
        found = list(change(elf, known, set() if IN_OTHERS.match(path.name) else ours))
        if elf.is_program():
            found += wrong_order(elf)
        elif path.name == OLD_PRELOAD:
            found += [f"does not need {library}" for library in MOVED if library not in elf.needed()]
        wrong += [f"{path.name}: {what}" for what in found]
        path.write_bytes(elf.data)
    if wrong:
        raise SystemExit("\n".join(f"old_glibc: {line}" for line in wrong))
