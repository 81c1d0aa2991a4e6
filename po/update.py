"""Brings zh_CN.po up to date with the sources: adds texts without translation, removes translations that no source
has, renews the names of the files. Then translate the empty entries.

usage: po/update.py
"""

import pathlib

import messages
import po_file


def main():
    here = pathlib.Path(__file__).resolve().parent
    path = here / "zh_CN.po"
    text = path.read_text(encoding="utf-8")
    known = {e.msgid: e for e in po_file.parse(text, path)}
    entries = []
    for msgid, files in messages.of_sources(here.parent).items():
        entry = known.pop(msgid, None) or po_file.Entry(msgid, "")
        notes = [c for c in entry.comments if not c.startswith("#:")]
        entry.comments = [f"#: {name}" for name in files] + notes
        entries.append(entry)
    path.write_text(po_file.write(po_file.header(text), entries), encoding="utf-8")
    missing = sum(not e.msgstr for e in entries)
    print(f"{len(entries)} texts, {missing} not translated, {len(known)} removed")


if __name__ == "__main__":
    main()
