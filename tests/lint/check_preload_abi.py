"""Compares the preload library's imports and exports with the golden list, and fails on forbidden symbols.
The list is tests/golden/preload_abi.txt; changing it is a decision, so no tool rewrites it.
"""

import difflib
import pathlib
import re
import subprocess
import sys

# Symbols that show that the C++ runtime, a sanitizer or an allocation got into the library. The library provides
# the functions of memory (preload/heap) and calls none.
FOREIGN = re.compile(r"__(a|ub|t|l|m)san_|_Unwind_|__cxa_(throw|guard)|^_Zn[wa]")
ALLOCATION = re.compile(r"^(malloc|calloc|realloc|free|posix_memalign|aligned_alloc|memalign)\b")


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], capture_output=True, check=True, text=True).stdout


def symbols(path):
    """(binding, section, name with version) of every dynamic symbol."""
    for line in readelf("--dyn-syms", path).splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[0].rstrip(":").isdigit():
            yield fields[4], fields[6], fields[7]


def newest_glibc(path):
    versions = re.findall(r"GLIBC_(\d+(?:\.\d+)+)", readelf("--version-info", path))
    return max(versions, key=lambda text: [int(part) for part in text.split(".")])


def abi(path):
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", path))
    exported = sorted(name for _, section, name in symbols(path) if section != "UND")
    return [*(f"needed {name}" for name in needed), f"newest GLIBC_{newest_glibc(path)}",
            *(f"export {name}" for name in exported)]


def musl_symbols():
    """The symbols that musl's loader can resolve; empty if musl is not installed."""
    musl = pathlib.Path("/lib/ld-musl-x86_64.so.1")
    return {name.split("@")[0] for _, section, name in symbols(musl) if section != "UND"} if musl.exists() else set()


# glibc's private names that musl provides as well.
COMMON_PRIVATE = {"__errno_location", "__cxa_finalize", "__cxa_atexit", "__tls_get_addr", "__stack_chk_fail"}


def missing_in_musl(path):
    """Strong references that would prevent a musl program from starting with the library preloaded."""
    known = musl_symbols()
    for binding, section, versioned in symbols(path):
        name = versioned.split("@")[0]
        if section == "UND" and binding == "GLOBAL" and name:
            if name not in known if known else name.startswith("__") and name not in COMMON_PRIVATE:
                yield f"musl lacks {name}: refer to it weakly"


def forbidden(path):
    """Errors of the library that are independent of the list."""
    dynamic = readelf("--dynamic", path)
    segments = readelf("--segments", path)
    if "TEXTREL" in dynamic:
        yield "it has text relocations"
    if "BIND_NOW" not in dynamic:
        yield "it binds lazily, which a signal handler must not"
    if "GNU_RELRO" not in segments:
        yield "its relocations stay writable"
    if "STATIC_TLS" not in dynamic and re.search(r"\bTLS\b", segments):
        yield "its thread-local storage is not of the initial-exec model"
    if re.search(r"GNU_STACK.*E\s+0x", segments):
        yield "it wants an executable stack"
    if "Build ID" not in readelf("--notes", path):
        yield "it has no build id"
    if int(newest_glibc(path).split(".")[1]) > 35:
        yield "it does not load with glibc 2.35"
    yield from missing_in_musl(path)
    for binding, section, name in symbols(path):
        if binding == "UNIQUE":
            yield f"{name} is GNU_UNIQUE: it would be shared with the program's own"
        elif binding == "WEAK" and section != "UND":
            yield f"{name} is weak: the program's own might replace it"
        elif name != "__asan_default_options" and FOREIGN.search(name) or section == "UND" and ALLOCATION.search(name):
            yield f"{name} has no business in it"


def main():
    library, golden = sys.argv[1:3]
    found = abi(library)
    expected = pathlib.Path(golden).read_text().splitlines()
    wrong = [f"{library}: {what}" for what in forbidden(library)]
    wrong += difflib.unified_diff(expected, found, golden, library, lineterm="")
    print("\n".join(wrong or found))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
