"""Makes PNG files of pages small: a palette of at most 256 colours, no package needed."""

import collections
import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOST_COLOURS = 256


def chunks(data):
    at = len(SIGNATURE)
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        yield kind, data[at + 8:at + 8 + size]
        at += 12 + size


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def unfilter(raw, height, stride, step):
    """The rows before PNG's filters, which store differences from neighbours."""
    rows, above = [], bytearray(stride)
    for y in range(height):
        begin = y * (stride + 1)
        kind, row = raw[begin], bytearray(raw[begin + 1:begin + 1 + stride])
        for i in range(stride):
            left, up = row[i - step] if i >= step else 0, above[i]
            if kind == 1:
                row[i] = (row[i] + left) & 255
            elif kind == 2:
                row[i] = (row[i] + up) & 255
            elif kind == 3:
                row[i] = (row[i] + (left + up) // 2) & 255
            elif kind == 4:
                corner = above[i - step] if i >= step else 0
                guess = left + up - corner
                near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))
                row[i] = (row[i] + near[2]) & 255
        rows.append(row)
        above = row
    return rows


def palette_of(count):
    """The most frequent colours; of similar colours only one."""
    chosen = []
    for least in (24, 12, 0):
        for colour, _ in count.most_common():
            if len(chosen) == MOST_COLOURS:
                return chosen
            if colour not in chosen and all(sum(abs(a - b) for a, b in zip(colour, other)) > least for other in chosen):
                chosen.append(colour)
    return chosen


def shrink(data):
    """The same picture with a palette; 8 bits a channel, not interlaced, as Chromium writes it."""
    parts = list(chunks(data))
    width, height, bits, kind, _, _, interlace = struct.unpack(">IIBBBBB", parts[0][1])
    if bits != 8 or kind not in (2, 6) or interlace:
        raise ValueError("only 8 bits a channel, not interlaced")
    step = 3 if kind == 2 else 4
    raw = zlib.decompress(b"".join(body for name, body in parts if name == b"IDAT"))
    rows = [
        [tuple(row[i : i + 3]) for i in range(0, width * step, step)]
        for row in unfilter(raw, height, width * step, step)
    ]
    count = collections.Counter(colour for row in rows for colour in row)
    palette = palette_of(count)
    number = {colour: min(range(len(palette)), key=lambda n: sum((a - b) ** 2 for a, b in zip(colour, palette[n])))
              for colour in count}
    packed = zlib.compress(b"".join(b"\0" + bytes(number[colour] for colour in row) for row in rows), 9)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    return (SIGNATURE + chunk(b"IHDR", header) + chunk(b"PLTE", bytes(v for colour in palette for v in colour))
            + chunk(b"IDAT", packed) + chunk(b"IEND", b""))
