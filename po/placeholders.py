"""Compares the placeholders of a translation with those of the English text: {} and {0:.1f} of fmt, {{name}} of
templates. The compiler has checked the English text against its arguments, so that a translation with the same
placeholders can be formatted too."""

import re

TAG = re.compile(r"\{\{[^{}]*\}\}")


class FormatError(Exception):
    pass


def fields_of(text):
    """The set of (argument, format) of a format string; arguments are numbered as fmt does."""
    out, ways, count = set(), set(), 0
    i = 0

    def number(digits):
        nonlocal count
        if digits:
            ways.add("numbered")
            return int(digits)
        ways.add("in order")
        count += 1
        return count - 1

    while i < len(text):
        if text[i:i + 2] in ("{{", "}}"):
            i += 2
        elif text[i] == "}":
            raise FormatError("a } without {")
        elif text[i] == "{":
            field = re.compile(r"\{(\d*)(:(?:[^{}]|\{\d*\})*)?\}").match(text, i)
            if not field:
                raise FormatError("a { that begins no placeholder")
            argument = number(field[1])
            nested = re.sub(r"\{(\d*)\}", lambda m: "{%d}" % number(m[1]), field[2] or "")
            out.add((argument, nested))
            i = field.end()
        else:
            i += 1
    if len(ways) > 1:
        raise FormatError("numbered placeholders beside {}")
    return out


def problem(msgid, msgstr, omits=frozenset()):
    """What is wrong with the translation; empty if nothing is."""
    if sorted(TAG.findall(msgid)) != sorted(TAG.findall(msgstr)):
        return "other {{tags}} than in the English text"
    try:
        english = fields_of(msgid)
    except FormatError:
        # No format string, but text with braces.
        same = all(msgid.count(c) == msgstr.count(c) for c in "{}")
        return "" if same else "other braces than in the English text"
    try:
        translated = fields_of(msgstr)
    except FormatError as error:
        return str(error)
    if not translated <= english:
        extra = ", ".join(f"{{{n}{spec}}}" for n, spec in sorted(translated - english))
        return f"placeholders that the English text does not have: {extra}"
    missing = {n for n, _ in english} - {n for n, _ in translated}
    if missing - set(omits):
        return f"without argument {', '.join(map(str, sorted(missing - set(omits))))} (say `#. omits N` if meant)"
    if set(omits) - missing:
        return f"`#. omits {min(set(omits) - missing)}`, but the translation has that argument"
    return ""
