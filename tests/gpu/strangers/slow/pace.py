"""Step clock shared by the ranks of a job.

    pace = Pace()                 # after the process group / device is set up
    while pace.running():         # once per step; False on all ranks at the same step
        if pace.late(): ...       # True from the step at which the job's trouble begins
        ...
    pace.close()

A small file in $JOB_OUT, mapped by every rank, says at which step the trouble begins, ends, and which step is
the last one.  Rank 0 decides them by its clock and always some steps ahead, so that no collective and no
synchronisation is needed.  Step times are CUDA events over windows of steps, read only in close().
"""

import json
import mmap
import os
import statistics
import struct
import time

BEGIN = float(os.environ.get("PACE_BEGIN_S", "9"))  # the trouble begins about then
TOTAL = float(os.environ.get("PACE_TOTAL_S", "34"))  # the job ends about then
NEVER = 1 << 40


def out_dir():
    d = os.environ.get("JOB_OUT") or "/tmp/job-out-%d" % os.getppid()
    os.makedirs(d, exist_ok=True)
    return d


class Board:
    """[current step of rank 0, first late step, first good step after it, number of steps, first was set] as int64"""

    def __init__(self):
        fd = os.open(os.path.join(out_dir(), "pace.bin"), os.O_RDWR | os.O_CREAT, 0o644)
        os.ftruncate(fd, 64)
        self.map = mmap.mmap(fd, 64)
        os.close(fd)

    def get(self, i):
        return struct.unpack_from("<q", self.map, 8 * i)[0]

    def put(self, i, v):
        struct.pack_into("<q", self.map, 8 * i, v)

    def late(self, step):
        a, b = self.get(1), self.get(2)
        return 0 < a <= step and not (0 < b <= step)


class Pace:
    def __init__(
        self,
        rank=None,
        window=10,
        ahead=60,
        begin=BEGIN,
        total=TOTAL,
        spell=None,
        from_start=False,
        healthy=False,
        cuda=None,
        skip=5,
    ):
        self.rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        self.window, self.ahead, self.total = window, int(os.environ.get("PACE_AHEAD", ahead)), total
        self.begin = None if (from_start or healthy) else begin
        self.spell, self.from_start, self.healthy, self.skip = spell, from_start, healthy, skip
        self.board = Board()
        self.step = -1
        self.t0 = None
        self.marks = []
        if cuda is None:
            import torch

            cuda = torch.cuda.is_available()
        self.cuda = cuda
        self.last_host = []

    def _mark(self):
        if self.cuda:
            import torch

            e = torch.cuda.Event(enable_timing=True)
            e.record()
        else:
            e = time.perf_counter()
        self.marks.append((self.step, e))

    def running(self):
        self.step += 1
        s, b = self.step, self.board
        now = time.monotonic()
        if s == self.skip:
            self.t0 = now
        if s % self.window == 0:
            self._mark()
        if self.rank == 0:
            b.put(0, s)
            if self.t0 is not None:
                gone = now - self.t0
                if self.begin is not None and not b.get(1) and gone > self.begin:
                    first = -(-(s + self.ahead) // self.window) * self.window
                    if self.spell:
                        b.put(2, first + self.spell)
                    b.put(1, first)
                if not b.get(3) and gone > self.total:
                    b.put(3, -(-(s + self.ahead) // self.window) * self.window)
        last = b.get(3)
        return not (0 < last <= s)

    def late(self):
        return self.from_start or self.board.late(self.step)

    def step_s(self):
        """seconds of one step on this host, over the last steps (call it each step)"""
        self.last_host = (self.last_host + [time.monotonic()])[-40:]
        n = len(self.last_host) - 1
        return (self.last_host[-1] - self.last_host[0]) / n if n else 0.0

    def close(self):
        if self.cuda:
            import torch

            torch.cuda.synchronize()
        first, end = self.board.get(1), self.board.get(2) or NEVER
        before, during, after, rows = [], [], [], []
        for (s0, a), (s1, b) in zip(self.marks, self.marks[1:]):
            ms = (a.elapsed_time(b) if self.cuda else (b - a) * 1e3) / (s1 - s0)
            rows.append([s0, round(ms, 3)])
            if s0 < 2 * self.window:
                continue
            if not first or s1 <= first:
                before.append(ms)
            elif s0 >= end:
                after.append(ms)
            elif s0 >= first:
                during.append(ms)
        med = lambda x: round(statistics.median(x), 3) if x else None
        if self.from_start:
            before, during = [], before
        truth = {
            "rank": self.rank,
            "steps": self.step,
            "window": self.window,
            "fault_step": 0 if self.from_start else (first or None),
            "fault_end_step": None if end == NEVER else end,
            "ms_before": med(before),
            "ms_during": med(during),
            "ms_after_spell": med(after),
            "windows": rows,
        }
        names = ["steps.rank%d.json" % self.rank] + (["steps.json"] if self.rank == 0 else [])
        for n in names:
            with open(os.path.join(out_dir(), n), "w") as f:
                json.dump(truth, f)
