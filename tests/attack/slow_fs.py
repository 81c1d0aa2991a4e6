"""A file system in memory that can be slowed down or stalled: FUSE, directly through /dev/fuse.

As a program: slow_fs.py MOUNTPOINT GATE DELAY. While the file GATE exists every operation waits. StallingFs runs
the program. Only the operations of a run directory are implemented; sockets and FIFOs cannot be made (no mknod).
"""

import contextlib
import ctypes
import errno
import os
import pathlib
import stat
import struct
import subprocess
import sys
import time

IN = struct.Struct("<IIQQIIII")
ATTR_BYTES = 88
ENTRY_PREFIX = struct.Struct("<QQQQII")
LOOKUP, FORGET, GETATTR, SETATTR, READLINK, SYMLINK, MKDIR, UNLINK, RMDIR, RENAME = 1, 2, 3, 4, 5, 6, 9, 10, 11, 12
OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT, OPENDIR, READDIR = 14, 15, 16, 17, 18, 20, 25, 26, 27, 28
RELEASEDIR, FSYNCDIR, ACCESS, CREATE, INTERRUPT, DESTROY, BATCH_FORGET, RENAME2 = 29, 30, 34, 35, 36, 38, 42, 45


class Node:
    def __init__(self, mode, uid=0, gid=0):
        self.mode, self.uid, self.gid = mode, uid, gid
        self.data = bytearray()
        self.names = {} if stat.S_ISDIR(mode) else None
        self.mtime = time.time_ns()


class FileSystem:
    def __init__(self, device, gate, delay):
        self.device, self.gate, self.delay = device, gate, delay
        self.nodes = {1: Node(stat.S_IFDIR | 0o755)}
        self.last = 1

    def add(self, parent, name, node):
        self.last += 1
        self.nodes[self.last] = node
        self.nodes[parent].names[name] = self.last
        return self.last

    def attr(self, number):
        n = self.nodes[number]
        s, ns = divmod(n.mtime, 10**9)
        links = 2 if n.names is not None else 1
        return struct.pack("<QQQQQQIIIIIIIIII", number, len(n.data), (len(n.data) + 511) // 512, s, s, s, ns, ns, ns,
                           n.mode, links, n.uid, n.gid, 0, 4096, 0)

    def entry(self, number):
        return ENTRY_PREFIX.pack(number, 0, 0, 0, 0, 0) + self.attr(number)

    def find(self, parent, name):
        number = self.nodes[parent].names.get(name)
        if number is None:
            raise OSError(errno.ENOENT, "")
        return number

    def serve(self):
        while True:
            try:
                message = os.read(self.device, 1 << 20)
            except OSError as e:
                if e.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                    continue
                return  # unmounted
            _, op, unique, number, uid, gid, _, _ = IN.unpack_from(message)
            if op in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            if op != INIT:
                time.sleep(self.delay)
                while os.path.exists(self.gate):
                    time.sleep(0.02)
            try:
                error, answer = 0, self.answer(op, number, uid, gid, message[IN.size:])
            except OSError as e:
                error, answer = -e.errno, b""
            with contextlib.suppress(OSError):  # the requesting process was killed
                os.write(self.device, struct.pack("<IiQ", 16 + len(answer), error, unique) + answer)

    def answer(self, op, number, uid, gid, body):
        name = body.split(b"\0", 1)[0]
        node = self.nodes.get(number)
        if op == INIT:
            major, minor, readahead, _ = struct.unpack_from("<IIII", body)
            return struct.pack("<IIIIHHIIHHI", 7, 31, readahead, 0, 12, 9, 1 << 17, 1, 32, 0, 0) + b"\0" * 24
        if op == LOOKUP:
            return self.entry(self.find(number, name))
        if op == GETATTR:
            return struct.pack("<QII", 0, 0, 0) + self.attr(number)
        if op == SETATTR:
            valid, _, _, size = struct.unpack_from("<IIQQ", body)
            mode, = struct.unpack_from("<I", body, 68)
            if valid & 8:
                del node.data[size:]
                node.data.extend(b"\0" * (size - len(node.data)))
            if valid & 1:
                node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(mode)
            return struct.pack("<QII", 0, 0, 0) + self.attr(number)
        if op == MKDIR:
            mode, = struct.unpack_from("<I", body)
            name = body[8:].split(b"\0", 1)[0]
            return self.entry(self.add(number, name, Node(stat.S_IFDIR | stat.S_IMODE(mode), uid, gid)))
        if op == CREATE:
            _, mode, _, _ = struct.unpack_from("<IIII", body)
            name = body[16:].split(b"\0", 1)[0]
            made = self.add(number, name, Node(stat.S_IFREG | stat.S_IMODE(mode), uid, gid))
            return self.entry(made) + struct.pack("<QII", 0, 0, 0)
        if op == SYMLINK:
            name, target = body.split(b"\0")[:2]
            made = self.add(number, name, Node(stat.S_IFLNK | 0o777, uid, gid))
            self.nodes[made].data += target
            return self.entry(made)
        if op == READLINK:
            return bytes(node.data)
        if op in (UNLINK, RMDIR):
            self.find(number, name)
            del node.names[name]
            return b""
        if op in (RENAME, RENAME2):
            to, = struct.unpack_from("<Q", body)
            old, new = body[8 if op == RENAME else 16:].split(b"\0")[:2]
            self.nodes[to].names[new] = self.find(number, old)
            del node.names[old]
            return b""
        if op in (OPEN, OPENDIR):
            return struct.pack("<QII", 0, 0, 0)
        if op == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return bytes(node.data[offset:offset + size])
        if op == WRITE:
            _, offset, size = struct.unpack_from("<QQI", body)
            node.data.extend(b"\0" * (offset - len(node.data)))
            node.data[offset:offset + size] = body[40:40 + size]
            node.mtime = time.time_ns()
            return struct.pack("<II", size, 0)
        if op == READDIR:
            _, offset, size = struct.unpack_from("<QQI", body)
            out = b""
            for i, (entry, child) in enumerate([(b".", number), (b"..", 1), *node.names.items()][offset:], offset + 1):
                padded = entry + b"\0" * (-len(entry) % 8)
                record = struct.pack("<QQII", child, i, len(entry), stat.S_IFMT(self.nodes[child].mode) >> 12) + padded
                if len(out) + len(record) > size:
                    break
                out += record
            return out
        if op == STATFS:
            return (
                struct.pack("<QQQQQIIII", 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096, 0) + b"\0" * 24
            )
        if op in (RELEASE, FSYNC, FLUSH, RELEASEDIR, FSYNCDIR, ACCESS, DESTROY):
            return b""
        raise OSError(errno.ENOSYS, "")


def mount(device, target):
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"xpurun-test", os.fsencode(target), b"fuse", 2 | 4, options) != 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))


class StallingFs:
    """`path` is the mounted directory. Raises OSError where FUSE cannot be mounted."""

    def __init__(self, directory, delay=0.0):
        self.path = pathlib.Path(directory) / "stalling"
        self.gate = pathlib.Path(directory) / "stalling.gate"
        self.path.mkdir()
        self.server = subprocess.Popen([sys.executable, __file__, self.path, self.gate, str(delay)],
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                       start_new_session=True)
        if self.server.stdout.readline() != "mounted\n":
            self.close()
            raise OSError(errno.EPERM, "FUSE cannot be mounted here")

    def stall(self):
        self.gate.touch()

    def go_on(self):
        self.gate.unlink(missing_ok=True)

    def close(self):
        """Ends the server first: waiting operations get an error, and no process stays behind."""
        self.server.kill()
        self.server.wait()
        self.server.stdout.close()
        ctypes.CDLL(None).umount2(os.fsencode(self.path), 2)
        self.gate.unlink(missing_ok=True)


if __name__ == "__main__":
    fuse = os.open("/dev/fuse", os.O_RDWR)
    mount(fuse, sys.argv[1])
    print("mounted", flush=True)
    FileSystem(fuse, sys.argv[2], float(sys.argv[3])).serve()
