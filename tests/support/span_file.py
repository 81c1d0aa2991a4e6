"""Reads span files by docs/spans.md alone, like a foreign program."""

from event_file import frame

SAME_THREAD, HAS_CPU, HAS_GROUP, NO_SPAN = 16, 32, 64, 128
STAGES = ["other", "data", "forward", "backward", "optimizer", "communication", "checkpoint", "evaluation", "garbage",
          "function", "mark"]


def span(tag, body, names, last):
    last["end"] += body.signed()
    out = {"stage": STAGES[tag & 15], "duration_ns": body.varint(), "name": names[body.varint()],
           "place": names[body.varint()]}
    out["inferred"] = out["name"] in last["inferred"]
    out["begin_ns"] = last["end"] - out["duration_ns"]
    if not tag & SAME_THREAD:
        last["thread"] = body.varint()
    out["thread"] = last["thread"]
    out["cpu_ns"] = body.varint() if tag & HAS_CPU else -1
    if tag & HAS_GROUP:
        group = body.varint()
        last["sequences"][group] = last["sequences"].get(group, 0) + body.signed()
        out |= {"group": names[group], "sequence": last["sequences"][group], "bytes": body.varint()}
    return out


def load(path):
    out = {"spans": [], "loads": [], "short_calls": [], "lost": 0, "backend": ""}
    names, last, before = [""], {"end": 0, "thread": 0, "sequences": {}, "inferred": set()}, [0, 0, 0, 0]
    lost = [0, 0]
    for tag, body in frame(path, "xpurun.spans/1", out):
        if tag < NO_SPAN:
            out["spans"].append(span(tag, body, names, last))
        elif tag == 0x80:
            names.append(body.text())
        elif tag == 0x81:
            before = [value + body.signed() for value in before]
            out["loads"].append(dict(zip(("at_ns", "cpu_ns", "run_delay_ns", "major_faults"), before)))
        elif tag == 0x85:
            lost = [value + body.signed() for value in lost]
            out["loads"][-1] |= dict(zip(("throttled_ns", "stolen_ns"), lost))
        elif tag == 0x82:
            out["lost"] += body.varint()
        elif tag == 0x88:
            out["backend"] = names[body.varint()]
        elif tag == 0x84:
            last["inferred"].add(names[body.varint()])
        elif tag == 0x83:
            out["short_calls"].append({"begin_ns": last["end"] + body.signed(), "duration_ns": body.varint(),
                                       "total_ns": body.varint(), "calls": body.varint(),
                                       "name": names[body.varint()], "thread": body.varint()})
    return out
