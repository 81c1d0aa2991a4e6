"""Compiles zh_CN.po into a sorted table in C++. Fails if the placeholders of a translation differ; a text without
translation stays English.

usage: compile.py OUTPUT.cpp INPUT.po
"""

import pathlib
import sys

import placeholders
import po_file


def literal(text):
    # Octal escapes end after three digits, whatever follows.
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in text.encode()) + '"'


def main():
    output, source = map(pathlib.Path, sys.argv[1:])
    try:
        entries = [e for e in po_file.parse(source.read_text(encoding="utf-8"), source) if e.msgstr]
    except po_file.PoError as error:
        sys.exit(str(error))
    wrong = []
    for e in entries:
        why = placeholders.problem(e.msgid, e.msgstr, e.omits())
        wrong += [f"{source}:{e.line}: {why}: {e.msgid}"] if why else []
    if wrong:
        sys.exit("\n".join(wrong))
    rows = "\n".join(f"    {{{literal(e.msgid)}, {literal(e.msgstr)}}},"
                     for e in sorted(entries, key=lambda e: e.msgid.encode()))
    output.write_text(f"""#include "common/base/catalogue.h"

namespace xpurun::base {{

namespace {{
constexpr Translation kChinese[] = {{
{rows}
}};
}}  // namespace

std::span<const Translation> chinese_catalogue() {{
  return kChinese;
}}

}}  // namespace xpurun::base
""", encoding="utf-8")


if __name__ == "__main__":
    main()
