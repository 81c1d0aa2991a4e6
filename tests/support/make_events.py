"""Writes event files by docs/events.md alone, for tests and measurements."""

import json
import pathlib
import struct
import zlib

MATMUL, COLLECTIVE, MEMORY, HOST = 1, 2, 3, 7
BF16_CUDA, BF16_NCCL = 14, 9
SOURCE_EVENTS, SOURCE_HOST_CALL, SOURCE_PROFILER = 1, 3, 4
WALL = 1_795_230_915_000_000_000  # of CLOCK_MONOTONIC 0


def varint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def signed(n):
    return varint(n << 1 if n >= 0 else (-n << 1) - 1)


def text(value):
    data = value.encode()
    return varint(len(data)) + data


def record(tag, body):
    return bytes([tag]) + varint(len(body)) + body


def entry(number, function, kind, work, dtype=0, shape=(0, 0, 0), comm=None):
    body = varint(number) + text(function) + varint(kind) + varint(0) + varint(work)
    body += varint(dtype) * 4 + varint(0) + varint(1) + varint(0) + varint(1)
    body += b"".join(signed(n) for n in shape) + varint(0 if comm is None else comm + 1) + signed(-1)
    return record(0x80, body + varint(1 if kind == MEMORY else 0) + varint(0))


def communicator(slot, identity, rank, size, name):
    return record(0x81, varint(slot) + struct.pack("<Q", identity) + signed(rank) + signed(size) + text(name))


def how(number, algorithm=2, protocol=3, channels=16):
    return record(0x84, varint(number) + varint(algorithm) + varint(protocol) + varint(channels))


class Events:
    """Event records, in the order of the calls."""

    def __init__(self):
        self.data, self.begin, self.last, self.count = bytearray(), 0, {}, 0

    def add(self, number, begin, duration, sequence=0, stream=0, delay=0, source=SOURCE_EVENTS):
        last = self.last.get(number, 0)
        body = varint(number) + signed(begin - self.begin) + varint(duration) + signed(sequence - last)
        body += varint(stream) + varint(delay)
        self.begin, self.last[number] = begin, sequence
        self.data += record(source, body)
        self.count += 1


def block(payload):
    return struct.pack("<II", len(payload), zlib.crc32(payload)) + bytes(payload)


def header(rank, host, local_rank=0, clock_error_ns=0):
    fields = {"rank": rank, "local_rank": local_rank, "pid": 1000 + rank, "host": host, "gpu": "NVIDIA H200",
              "gpu_uuid": "", "mono_ns": 0, "wall_ns": WALL + clock_error_ns}
    return b"xpurun.events/2\n" + json.dumps(fields).encode() + b"\n"


def entries(rank, world, tensor=2):
    """Definitions of the calls of training_events(): groups of `tensor` neighbours, and all ranks."""
    return (communicator(0, 0x1000 + rank // tensor, rank % tensor, tensor, "tp")
            + communicator(1, 0x2, rank, world, "world")
            + entry(0, "cublasGemmEx", MATMUL, 2 * 4096**3, BF16_CUDA, (4096, 4096, 4096))
            + entry(1, "cublasLtMatmul", MATMUL, 2 * 4096**2 * 1024, BF16_CUDA, (4096, 1024, 4096))
            + entry(2, "ncclAllReduce", COLLECTIVE, 1 << 25, BF16_NCCL, (0, 0, 1 << 24), comm=0)
            + entry(3, "ncclReduceScatter", COLLECTIVE, 1 << 27, BF16_NCCL, (0, 0, 1 << 20), comm=1)
            + entry(4, "cudaMemcpyAsync", MEMORY, 1 << 20)
            + entry(5, "cublasGemmEx", HOST, 0) + how(2) + how(3, 1, 1))


def training_events(steps, late_ns=0, begin=1_000_000_000):
    """Ten events a step of 2 ms; `late_ns`: this rank enters the reduce-scatter later than the others."""
    out = Events()
    for step in range(steps):
        at = begin + step * 2_000_000
        out.add(5, at, 5_000, delay=77, source=SOURCE_HOST_CALL)
        for i in range(6):
            out.add(i % 2, at + 20_000 + i * 200_000, 190_000, sequence=step * 3 + i // 2, stream=1, delay=19)
        out.add(4, at + 1_220_000, 50_000, sequence=step, stream=1, delay=3)
        out.add(2, at + 1_300_000, 200_000, sequence=step + 1, stream=2, delay=8, source=SOURCE_PROFILER)
        out.add(3, at + 1_500_000 + late_ns, 400_000 - late_ns, sequence=step + 1, stream=2, delay=8,
                source=SOURCE_PROFILER)
    return out


def write_marks(path, rank, steps, host="node0", begin=1_000_000_000):
    """A span file in which the program says that each step of training_events() ended."""
    payload, last = bytearray(), 0
    for step in range(1, steps + 1):
        end = begin + step * 2_000_000 - 1
        payload += record(10, signed(end - last) + varint(0) * 3 + varint(5))
        last = end
    data = header(rank, host).replace(b"xpurun.events/2", b"xpurun.spans/1") + block(payload)
    pathlib.Path(path).write_bytes(data)


def write_calls(path, rank, steps, host="node0", begin=1_000_000_000, late_ns=0):
    """A span file with an all_reduce of torch.distributed in each step, to which the rank comes late."""
    payload, last = b"".join(record(0x80, text(t)) for t in ("all_reduce", "0123.0", "train.py:40 (step)")), 0
    for step in range(steps):
        end = begin + step * 2_000_000 + 1_000_000
        call = signed(end - last) + varint(500_000 - late_ns) + varint(1) + varint(3) + varint(5)
        payload += record(5 | 0x40, call + varint(2) + signed(1) + varint(4096))
        last = end
    data = header(rank, host).replace(b"xpurun.events/2", b"xpurun.spans/1") + block(payload)
    pathlib.Path(path).write_bytes(data)


def write_pipeline(path, rank, ranks, steps, host="node0", batches=4, begin=1_000_000_000):
    """A span file with the marked jobs of a stage of a pipeline: all forward passes of 1 ms, then all backward passes
    of 2 ms; stage 1 needs twice as long, and the others wait for it."""
    payload, last = bytearray(), 0
    names = [f"micro-batch {i}" for i in range(batches)] + ["SGD.step"]
    for name in names:
        payload += record(0x80, text(name))
    unit = 1_000_000
    factor = 2 if rank == 1 else 1
    length = 2 * unit  # of a forward in the slowest stage
    step_ns = (batches + ranks) * 3 * length + 2 * unit
    for step in range(steps):
        at = begin + step * step_ns
        turn = at + (batches + ranks) * length
        jobs = [(2, i, at + (rank + i) * length, factor * unit) for i in range(batches)]
        jobs += [(3, i, turn + (ranks - 1 - rank + i) * 2 * length, 2 * factor * unit) for i in range(batches)]
        jobs.append((4, batches, turn + (ranks - rank + batches) * 2 * length, unit))
        for stage, name, start, duration in jobs:
            end = start + duration
            payload += record(stage, signed(end - last) + varint(duration) + varint(name + 1) + varint(0) + varint(5))
            last = end
    data = header(rank, host).replace(b"xpurun.events/2", b"xpurun.spans/1") + block(payload)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def write_rank(path, rank, world, events, hosts=1, clock_error_ns=0):
    host = rank * hosts // world
    data = (header(rank, f"node{host}", rank % max(1, world // hosts), clock_error_ns * host)
            + block(entries(rank, world)) + block(events.data))
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
