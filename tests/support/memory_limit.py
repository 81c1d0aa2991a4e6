"""A control group with a limit of memory, of version 1 or 2, at which the kernel kills."""

import contextlib
import os
import pathlib
import time

ROOT = pathlib.Path("/sys/fs/cgroup")


def _parent():
    """(directory below which groups can be made, name of the file of the limit)."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, own = line.split(":", 2)
        if "memory" in controllers.split(","):
            return ROOT / "memory" / own.lstrip("/"), "memory.limit_in_bytes"
    if "memory" not in (ROOT / "cgroup.subtree_control").read_text().split():
        raise OSError(f"no limit of memory below {ROOT}")
    return ROOT, "memory.max"


class MemoryLimit:
    def __init__(self, size):
        parent, limit = _parent()
        self.group = parent / f"xpurun-test-{os.getpid()}"
        self.group.mkdir()
        try:
            (self.group / limit).write_text(str(size))
            # Without it, the kernel would swap first. Not every kernel counts swap.
            with contextlib.suppress(OSError):
                (self.group / "memory.swappiness").write_text("0")
            with contextlib.suppress(OSError):
                (self.group / "memory.swap.max").write_text("0")
        except OSError:
            self.group.rmdir()
            raise

    def add(self, pid):
        (self.group / "cgroup.procs").write_text(str(pid))

    def close(self):
        """After the death of the processes; the kernel takes a moment to forget them."""
        for _ in range(100):
            with contextlib.suppress(OSError):
                self.group.rmdir()
                return
            time.sleep(0.1)


def missing():
    """Why there can be no such group here; empty: there can."""
    if os.geteuid() != 0:
        return "needs root for a control group"
    try:
        MemoryLimit(64 << 20).close()
    except OSError as e:
        return f"no control group with a limit of memory here: {e}"
    try:
        os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
    except OSError as e:
        return f"the kernel's log cannot be read here: {e}"
    return ""
