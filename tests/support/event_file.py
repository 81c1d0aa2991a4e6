"""Reads event files by docs/events.md alone, like a foreign program."""

import json
import pathlib
import struct

SOURCE, HOST_BEGIN, SAME_STREAM, NEXT_SEQUENCE, NO_EVENT = 7, 8, 16, 32, 128


def fnv1a(data):
    value = 2166136261
    for byte in data:
        value = (value ^ byte) * 16777619 & 0xffffffff
    return value


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


def load(path):
    data = pathlib.Path(path).read_bytes()
    schema, header, rest = data.split(b"\n", 2)
    assert schema == b"xpurun.events/1", schema
    out = {"header": json.loads(header), "events": [], "ops": {}, "communicators": [], "lost": 0, "complete": True,
           "bytes": len(data)}
    begin, last, how = 0, {}, {}
    while rest:
        size, checksum = struct.unpack("=II", rest[:8]) if len(rest) >= 8 else (len(rest), 0)
        payload, rest = rest[8:8 + size], rest[8 + size:]
        if len(payload) < size or fnv1a(payload) != checksum:
            out["complete"] = False
            break
        records = Records(payload)
        while records.at < len(payload):
            tag = records.take(1)[0]
            if tag < NO_EVENT:
                op = records.varint()
                begin += records.signed()
                duration = records.varint()
                stream, sequence = last.get(op, (0, 0))
                sequence += 1 if tag & NEXT_SEQUENCE else records.signed()
                stream = stream if tag & SAME_STREAM else records.varint()
                last[op] = (stream, sequence & 0xffffffff)
                out["events"].append(
                    {
                        "op": op,
                        "begin_ns": begin,
                        "duration_ns": duration,
                        "sequence": sequence,
                        "stream": stream,
                        "delay_us": records.varint(),
                        "source": tag & SOURCE,
                        "host_begin": bool(tag & HOST_BEGIN),
                        **how.get(op, {"algorithm": 0, "protocol": 0, "channels": 0}),
                    }
                )
                assert op in out["ops"]
            elif tag == 0x80:
                op = records.varint()
                out["ops"][op] = {"key": records.take(64), "work": records.varint()}
            elif tag == 0x81:
                comm = {"slot": records.varint(), "identity": records.take(8).hex(), "rank": records.signed(),
                        "nranks": records.signed()}
                comm["name"] = records.take(records.varint()).decode()
                out["communicators"].append(comm)
            elif tag == 0x84:
                op = records.varint()
                how[op] = dict(zip(("algorithm", "protocol", "channels"), records.take(3)))
            elif tag == 0x82:
                out["lost"] += records.varint()
            else:
                assert tag == 0x83, tag
                records.take(16)
    return out
