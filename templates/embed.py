"""Writes a .cpp that defines one std::string_view per input file: report.css becomes kReportCss.

A .js file becomes a Script.

usage: embed.py OUTPUT.cpp INPUT...
"""

import base64
import hashlib
import pathlib
import sys

# Raw strings are split: compilers need not accept a literal of more than 64 KiB.
CHUNK = 12000
FORBIDDEN = {".css": ("]]>", "</style"), ".js": ("]]>", "</script", "<!--")}


def constant_name(path):
    return "k" + "".join(part.capitalize() for part in path.stem.split("_")) + path.suffix[1:].capitalize()


def literal(text):
    chunks = [text[i:i + CHUNK] for i in range(0, len(text), CHUNK)] or [""]
    return "\n    ".join(f'R"tpl({chunk})tpl"' for chunk in chunks)


def definition(path, text):
    name = constant_name(path)
    view = f"std::string_view({name}Text, sizeof {name}Text - 1)"
    if path.suffix != ".js":
        return f"const std::string_view {name} = {view};"
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"const Script {name}{{{view}, \"'sha256-{digest}'\"}};"


def main():
    output, *inputs = map(pathlib.Path, sys.argv[1:])
    out = ['#include "templates/templates.h"\n\nnamespace xpurun::templates {\n']
    for path in inputs:
        text = path.read_text(encoding="utf-8")
        for bad in FORBIDDEN.get(path.suffix, ()) + (')tpl"',):
            if bad in text:
                sys.exit(f"{path}: must not contain {bad!r}")
        out.append(f"constexpr char {constant_name(path)}Text[] =\n    {literal(text)};\n"
                   f"{definition(path, text)}\n")
    out.append("}  // namespace xpurun::templates\n")
    output.write_text("\n".join(out), encoding="utf-8")


if __name__ == "__main__":
    main()
