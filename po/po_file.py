"""Reads and writes .po files (GNU gettext), the part of the format that xpurun uses: one translation per entry, no
plural forms, no contexts."""

import dataclasses
import re

STRING = re.compile(r'"((?:[^"\\]|\\.)*)"$')
ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
LONGEST = 100


@dataclasses.dataclass
class Entry:
    msgid: str
    msgstr: str
    comments: list = dataclasses.field(default_factory=list)  # lines that begin with "#"
    line: int = 0

    def omits(self):
        """Arguments that the translation may leave out: "#. omits 1 2", for a word of English grammar."""
        return {int(n) for c in self.comments if c.startswith("#. omits ") for n in c.split()[2:]}


class PoError(Exception):
    pass


def unescape(text):
    return re.sub(r"\\(.)", lambda m: ESCAPES[m[1]], text)


def escape(text):
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")


def parse(text, name):
    """The entries of a .po file, without its header (the empty msgid)."""
    entries, comments, entry, field = [], [], None, None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line:
            field = None
        elif line.startswith("#"):
            comments.append(line)
            field = None
        else:
            keyword, _, rest = line.partition(" ")
            if keyword in ("msgid", "msgstr"):
                line, field = rest.strip(), keyword
                if keyword == "msgid":
                    entry = Entry("", "", comments, number)
                    comments = []
                    entries.append(entry)
            string = STRING.match(line)
            if not string or entry is None or field is None:
                raise PoError(f"{name}:{number}: neither msgid nor msgstr nor a string: {line}")
            try:
                setattr(entry, field, getattr(entry, field) + unescape(string[1]))
            except KeyError:
                raise PoError(f"{name}:{number}: an unknown escape sequence") from None
    seen = {}
    for e in entries:
        if e.msgid in seen:
            raise PoError(f"{name}:{e.line}: the same msgid as in line {seen[e.msgid]}")
        seen[e.msgid] = e.line
    return [e for e in entries if e.msgid]


def header(text):
    """What stands before the first entry with a msgid, as it is."""
    return text[:text.index('\n\n') + 2]


def string_lines(keyword, text):
    if len(text) + len(keyword) < LONGEST:
        return [f'{keyword} "{escape(text)}"']
    # Long texts are broken behind blanks, or anywhere in a text without.
    pieces = [text[i:i + LONGEST // 2] for i in range(0, len(text), LONGEST // 2)] if " " not in text else []
    line = ""
    for word in re.findall(r"[^ ]* ?", text) if not pieces else []:
        if line and len(line) + len(word) > LONGEST - 10:
            pieces.append(line)
            line = ""
        line += word
    return [f'{keyword} ""'] + [f'"{escape(p)}"' for p in pieces + ([line] if line else [])]


def write(head, entries):
    blocks = ["\n".join(e.comments + string_lines("msgid", e.msgid) + string_lines("msgstr", e.msgstr))
              for e in entries]
    return head + "\n\n".join(blocks) + "\n"
