"""Fails if a text of the sources is not in po/zh_CN.po, if an entry there has no source, if a translation is missing,
or if its placeholders differ from those of the English text.

Usage: check_translations.py SOURCE_ROOT
"""

import pathlib
import sys


def problems(root):
    sys.path.insert(0, str(root / "po"))
    import messages
    import placeholders
    import po_file

    path = root / "po" / "zh_CN.po"
    texts = messages.of_sources(root)
    if not texts:
        yield "no text to translate was found in the sources"
    entries = po_file.parse(path.read_text(encoding="utf-8"), path.name)
    known = {e.msgid for e in entries}
    for text, files in texts.items():
        if text not in known:
            yield f"{files[0]}: not in {path.name} (run po/update.py): {text}"
    for e in entries:
        if e.msgid not in texts:
            yield f"{path.name}:{e.line}: no source has this text (run po/update.py): {e.msgid}"
        why = placeholders.problem(e.msgid, e.msgstr, e.omits()) if e.msgstr else "not translated"
        if why:
            yield f"{path.name}:{e.line}: {why}: {e.msgid}"


def main():
    found = list(problems(pathlib.Path(sys.argv[1]).resolve()))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
