"""Reads event files by docs/events.md alone, like a foreign program."""

import json
import pathlib
import struct
import zlib

SOURCE, HOST_BEGIN, SAME_STREAM, NEXT_SEQUENCE, NO_EVENT = 7, 8, 16, 32, 128


class Records:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        self.at += size
        assert self.at <= len(self.data)
        return self.data[self.at - size:self.at]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def signed(self):
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def text(self):
        return self.take(self.varint()).decode()

    def record(self):
        """Type and body."""
        return self.take(1)[0], Records(self.take(self.varint()))


def event(tag, body, last, before):
    op = body.varint()
    begin = before + body.signed()
    duration = body.varint()
    stream, sequence = last.get(op, (0, 0))
    sequence += 1 if tag & NEXT_SEQUENCE else body.signed()
    stream = stream if tag & SAME_STREAM else body.varint()
    last[op] = (stream, sequence & 0xffffffff)
    return {"op": op, "begin_ns": begin, "duration_ns": duration, "sequence": sequence, "stream": stream,
            "delay_us": body.varint(), "source": tag & SOURCE, "host_begin": bool(tag & HOST_BEGIN)}


def entry(body):
    out = {"function": body.text(), "class": body.varint(), "flags": body.varint(), "work": body.varint()}
    out["dtypes"] = [body.varint() for _ in range(4)]
    for name in ("compute", "trans", "epilogue", "batch"):
        out[name] = body.varint()
    for name in ("m", "n", "k"):
        out[name] = body.signed()
    out["comm"] = body.varint() - 1
    out["peer"] = body.signed()
    return out


def frame(path, wanted_schema, out):
    """The records of a file, as (type, body), with header and size put into `out`. A damaged block ends them."""
    data = pathlib.Path(path).read_bytes()
    schema, header, rest = data.split(b"\n", 2)
    assert schema.decode() == wanted_schema, schema
    out |= {"header": json.loads(header), "complete": True, "bytes": len(data)}
    while rest:
        size, checksum = struct.unpack("<II", rest[:8]) if len(rest) >= 8 else (len(rest), 0)
        payload, rest = rest[8:8 + size], rest[8 + size:]
        if len(payload) < size or zlib.crc32(payload) != checksum:
            out["complete"] = False
            return
        records = Records(payload)
        while records.at < len(payload):
            yield records.record()


def load(path):
    out = {"events": [], "ops": {}, "communicators": [], "lost": 0}
    begin, last, how = 0, {}, {}
    for tag, body in frame(path, "xpurun.events/2", out):
        if tag < NO_EVENT:
            one = event(tag, body, last, begin)
            begin = one["begin_ns"]
            assert one["op"] in out["ops"]
            out["events"].append({**one, **how.get(one["op"], {"algorithm": 0, "protocol": 0, "channels": 0})})
        elif tag == 0x80:
            number = body.varint()
            out["ops"][number] = entry(body)
        elif tag == 0x81:
            out["communicators"].append({"slot": body.varint(), "identity": body.take(8).hex(),
                                         "rank": body.signed(), "nranks": body.signed(), "name": body.text()})
        elif tag == 0x84:
            op = body.varint()
            how[op] = {name: body.varint() for name in ("algorithm", "protocol", "channels")}
        elif tag == 0x82:
            out["lost"] += body.varint()
        elif tag == 0x83:
            body.take(16)
    return out


def resources(path):
    """A file of hardware counters, by docs/speed.md alone."""
    out = {"resources": {}, "samples": []}
    end, order = 0, []
    for tag, body in frame(path, "xpurun.resources/1", out):
        if tag == 1:
            order.append(body.varint())
            out["resources"][order[-1]] = body.text()
        elif tag == 2:
            begin = end + body.signed()
            duration = body.varint()
            values = {number: struct.unpack("<f", body.take(4))[0] for number in order}
            out["samples"].append({"begin_ns": begin, "duration_ns": duration, "values": values})
            end = begin + duration
    return out
