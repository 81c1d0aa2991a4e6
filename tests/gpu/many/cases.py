"""The faults that the job of train.py gets, and what xpurun has to say of each."""

import dataclasses

from running import stages_of

HANG, CALLS, END, SLOW = "hang", "calls", "end", "slow"


@dataclasses.dataclass(frozen=True)
class Case:
    """A fault. `stage`, `data`, `tensor`: the rank that has the fault; each is taken modulo the number there is."""

    name: str
    kind: str  # hang: known after the timeout; calls: proven when the last rank has called; end: a death; slow
    ids: tuple
    stage: int
    data: int
    tensor: int
    device: str = ""  # "gpu" or "cpu": only there
    pipeline: bool = False  # needs two stages

    def guilty(self, ranks):
        stages = stages_of(ranks)
        data = ranks // (2 * stages)
        return self.tensor % 2 + 2 * (self.data % data + data * (self.stage % stages))


def mismatch(kind):
    """gloo may end a rank that gets a message of another size."""
    return kind, "crash.mismatch", "exit.mismatch"


CASES = [
    Case("out-of-memory", END, ("exit.exception",), 1, 1, 1),
    Case("device-assert", END, ("exit.exception",), 0, 1, 0, "gpu"),
    Case("killed", END, ("crash.killed",), 1, 0, 0),
    Case("exception", END, ("exit.exception",), 0, 0, 1),
    Case("segv", END, ("crash.signal",), 1, 1, 1, "cpu"),
    Case("early-exit", END, ("exit.left_early", "hang.left_early"), 0, 1, 0, "cpu"),
    Case("hang", HANG, ("hang.stuck",), 1, 1, 0),
    Case("stopped", HANG, ("hang.stopped",), 0, 1, 1),
    Case("python-loop", HANG, ("hang.busy",), 1, 0, 1),
    Case("lock-order", HANG, ("hang.lock",), 0, 0, 1),
    Case("stuck-worker", HANG, ("hang.lock",), 0, 1, 0),
    Case("gil-in-c", HANG, ("hang.stuck",), 1, 0, 0, "cpu"),
    Case("endless-kernel", HANG, ("hang.kernel",), 1, 1, 1, "gpu"),
    Case("queued", HANG, ("hang.queued", "hang.kernel", "hang.not_launched"), 0, 0, 1, "gpu"),
    Case("tensor-size", CALLS, mismatch("hang.mismatch_size"), 1, 0, 1),
    Case("tensor-op", CALLS, mismatch("hang.mismatch"), 0, 1, 1),
    Case("tensor-type", CALLS, mismatch("hang.mismatch_type"), 1, 1, 0),
    Case("skipped-call", CALLS, ("hang.not_entered", "hang.mismatch", "hang.order"), 0, 0, 1),
    Case("wrong-root", CALLS, ("hang.mismatch_root",), 1, 0, 0),
    Case("wrong-order", CALLS, ("hang.order",), 0, 1, 1),
    Case("missing-send", CALLS, ("hang.p2p", "hang.mismatch"), 0, 0, 1, pipeline=True),
    Case("pipeline-shape", CALLS, ("hang.p2p", "crash.mismatch", "exit.mismatch"), 0, 1, 0, pipeline=True),
    Case("no-new-group", CALLS, ("hang.not_entered", "hang.mismatch"), 1, 0, 1),
    Case("fewer-batches", CALLS, ("hang.mismatch", "hang.not_entered"), 0, 0, 1),
    Case("slow-input", SLOW, ("slow_rank.input",), 0, 1, 0),
    Case("slow-host", SLOW, ("slow_rank.cpu_contention",), 1, 0, 1),
    Case("slow-gpu", SLOW, ("slow_rank.gpu_compute",), 1, 1, 0, "gpu"),
    Case("none", SLOW, ("none.not_slow",), 0, 0, 0, "cpu"),
]


def chosen(gpu, ranks, names=()):
    """24 cases on either device, or those named, as far as the job has what they need."""
    return [case for case in CASES if (case.name in names if names else case.device != ("cpu" if gpu else "gpu"))
            and (stages_of(ranks) > 1 or not case.pipeline)]
