"""The shared memory between a rank and its supervisor (common/wire/segment.h), read and made from Python.

Written from docs/wire.md, not generated from the header: the tests notice differences between the two.
"""

import array
import ctypes
import mmap
import os
import pathlib
import re
import socket
import struct
import threading

OPS, COMMS, RING = 1024, 128, 32768
OPS_AT, COMMS_AT, RING_AT = 4096, 4096 + 128 * OPS, 4096 + 128 * OPS + 256 * COMMS
EVENT = struct.Struct("<QQIIIHBBBBB5x")
THREADS, THREADS_AT = 32, RING_AT + EVENT.size * RING
SIGNATURES, SIGNATURES_AT = 256, THREADS_AT + THREADS * 16 * OPS
BYTES = SIGNATURES_AT + COMMS * SIGNATURES * 40
OFF, LIGHT, FULL = 0, 1, 2
HEALTH = (
    "hooked_calls own_ns poller_cpu_ns polls samples completed no_event stream_full queue_full ring_dropped "
    "table_full captured cuda_errors kernel_launches comms_full event_host_ns heartbeat_ns marks mark_host_ns gpu_ns "
    "profiler_samples profiler_host_ns profiler_lost profiler_full"
).split()
COMM_STATES = "free claimed initialising live finalized aborted destroyed failed".split()


def apis():
    """Names by number, from the list that is part of the wire."""
    text = (pathlib.Path(os.environ["XPURUN_TEST_SOURCE"]) / "common/wire/api.h").read_text()
    return re.findall(r"^  X\((\w+), \w+\)", text, re.M)


class Segment:
    def __init__(self, level=LIGHT, budget_ppm=1_000_000_000):
        self.fd = os.memfd_create("segment", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, BYTES)
        self.memory = mmap.mmap(self.fd, BYTES)
        self.memory[:16] = struct.pack("<QII", 0x3147_4553_4e52_5058, 8, BYTES)
        self.memory[64:72] = struct.pack("<II", level, budget_ppm)
        struct.pack_into("<i", self.memory, 276, -1)
        self.names = apis()

    @classmethod
    def of_this_process(cls):
        """The segment of the preload library in this process, or None."""
        for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
            if "/memfd:xpurun-segment" in line:
                made = cls.__new__(cls)
                made.memory = (ctypes.c_char * BYTES).from_address(int(line.split("-")[0], 16))
                made.names = apis()
                return made
        return None

    def set_level(self, level):
        struct.pack_into("<I", self.memory, 64, level)

    def set_budget(self, ppm):
        struct.pack_into("<I", self.memory, 68, ppm)

    def set_poll_us(self, us):
        struct.pack_into("<I", self.memory, 76, us)

    def set_untimed(self, classes):
        struct.pack_into("<I", self.memory, 72, classes)

    def set_host_events(self, on):
        struct.pack_into("<I", self.memory, 80, on)

    def set_every(self, every):
        """0: as the budget allows; 1: every collective; 2: every call."""
        struct.pack_into("<I", self.memory, 84, every)

    def word(self, at, kind="<Q"):
        return struct.unpack_from(kind, self.memory, at)[0]

    def health(self):
        return dict(zip(HEALTH, struct.unpack_from("<24Q", self.memory, 448)))

    def event_overhead(self):
        """Nanoseconds between two events with nothing between them, and whether they are subtracted."""
        return self.word(656), self.word(664)

    def events(self):
        """Events made in advance, and those of work in flight."""
        return struct.unpack_from("<II", self.memory, 672)

    def state(self):
        return struct.unpack_from("<IIIIiiII", self.memory, 256)  # state, reason, level, period, pid, device, versions

    def profiler(self):
        """State, version of the interface, state and version of the program's own plugin."""
        return struct.unpack_from("<IIII", self.memory, 640)

    def counting_threads(self):
        """Numbers of the places in which threads count."""
        return [i for i, owner in enumerate(struct.unpack_from(f"<{THREADS}i", self.memory, 704)) if owner != 0]

    def ops(self):
        found = []
        for i in range(OPS):
            at = OPS_AT + 128 * i
            if self.word(at, "<I") != 2:
                continue
            api, op_class, flags = struct.unpack_from("<HBB", self.memory, at + 8)
            dtype = tuple(self.memory[at + 12:at + 16])
            compute, trans, epilogue, batch, m, n, k, comm, peer, copy, pinned = struct.unpack_from(
                "<BBHIqqqIiBB", self.memory, at + 16)
            calls, work, captured, timed, timed_ns, timed_work, host_ns = struct.unpack_from(
                "<7Q", self.memory, at + 72
            )
            for thread in self.counting_threads():
                more = struct.unpack_from("<2Q", self.memory, THREADS_AT + 16 * (OPS * thread + i))
                calls, work = calls + more[0], work + more[1]
            found.append(
                {
                    "index": i,
                    "api": self.names[api],
                    "class": op_class,
                    "flags": flags,
                    "dtype": dtype,
                    "compute": compute,
                    "trans": trans,
                    "epilogue": epilogue,
                    "batch": batch,
                    "m": m,
                    "n": n,
                    "k": k,
                    "comm": comm,
                    "peer": peer,
                    "copy": copy,
                    "pinned": pinned,
                    "calls": calls,
                    "work": work,
                    "captured": captured,
                    "timed": timed,
                    "timed_ns": timed_ns,
                    "timed_work": timed_work,
                    "host_ns": host_ns,
                }
            )
        return found

    def op(self, api, **more):
        matching = [
            op for op in self.ops() if op["api"] == api and all(op[key] == value for key, value in more.items())
        ]
        assert len(matching) == 1, (api, more, matching)
        return matching[0]

    def class_of(self, index):
        return self.word(OPS_AT + 128 * index + 10, "<B")

    def comms(self):
        found = []
        for i in range(COMMS):
            at = COMMS_AT + 256 * i
            state, flags, identity, handle, rank, nranks, device, splits = struct.unpack_from(
                "<IIQQiiiI", self.memory, at
            )
            if state == 0:
                continue
            counts = struct.unpack_from("<10Q", self.memory, at + 80)
            marked = self.word(at + 176)
            name = self.memory[at + 40:at + 80].split(b"\0")[0].decode()
            signatures = [struct.unpack_from("<5Q", self.memory, SIGNATURES_AT + 40 * (SIGNATURES * i + s))
                          for s in range(SIGNATURES)]
            found.append({"index": i, "state": COMM_STATES[state], "flags": flags, "identity": identity, "rank": rank,
                          "nranks": nranks, "device": device, "splits": splits, "name": name, "marked": marked,
                          **dict(zip("called launched started done sends receives p2p_launched p2p_done last_change_ns "
                                     "last_stream".split(), counts)),
                          "signatures": {s[0]: s for s in signatures if s[0]}})
        return found

    def events_between(self, first, end):
        """Events by number, read or not, as long as they have not been overwritten."""
        assert end - first <= RING
        found = [EVENT.unpack_from(self.memory, RING_AT + EVENT.size * (i % RING)) for i in range(first, end)]
        names = "begin_ns duration_ns op sequence delay_us stream source flags algorithm protocol channels".split()
        return [dict(zip(names, e)) for e in found]

    def ring_head(self):
        return self.word(192)

    def drain(self):
        """The events since the last call; frees their slots."""
        tail, head = self.word(128), self.word(192)
        events = self.events_between(tail, head)
        struct.pack_into("<Q", self.memory, 128, head)
        return events


class FakeSupervisor:
    """Listens for attach notices of the preload and hands out segments made by `make`."""

    def __init__(self, directory, make=Segment):
        self.path = str(pathlib.Path(directory) / "n.sock")
        self.make = make
        self.segments = {}
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(self.path)
        self.socket.listen(64)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def variable(self):
        return f"1:{os.getpid()}:10:{self.path}"

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                notice = connection.recv(64)
                if len(notice) == 64 and struct.unpack_from("<H", notice, 6)[0] == 3:
                    segment = self.make()
                    if segment is not None:
                        self.segments[struct.unpack_from("<i", notice, 12)[0]] = segment
                        connection.sendmsg(
                            [b"s"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [segment.fd]))]
                        )

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
