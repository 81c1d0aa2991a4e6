"""Step times with xpurun, with --timing off and without xpurun. The jobs run side by side and make steps in turn, so
that clocks that drift cancel out: a round has a block of steps of every job. Bare runs twice: the difference is noise.
"""

import statistics
import sys
import time

from running import HERE, Job
from shapes import WARM

sys.path.append(str(HERE.parent))

import timing  # noqa: E402

KINDS = ("fsdp", "grid")
VARIANTS = {"bare": None, "bare again": None, "off": ("--timing", "off"), "default": ()}
BLOCK_S = 0.85  # with the steps before it; a job that stands still for five seconds is captured by xpurun
START_S = 90


class Turns:
    def __init__(self, machine, kind):
        self.machine, self.kind = machine, kind
        self.ranks = machine.timed_ranks if machine.gpus else min(machine.ranks, 4)
        self.directory = machine.scratch / f"turns-{kind}"
        self.directory.mkdir()
        self.number = 0
        self.give("nobody", 0)
        self.jobs = {name: self.start(name, options) for name, options in VARIANTS.items()}

    def start(self, name, options):
        short = name.replace(" ", "-")
        directory = self.directory / short
        directory.mkdir()
        command = self.machine.torchrun(directory, self.ranks, "turns.py", self.kind, self.directory, short)
        if options is not None:
            command = [self.machine.xpurun, "--out", str(directory / "run"), *options, "--", *command]
        return Job(self.machine, directory, command)

    def give(self, name, steps):
        self.number += 1
        partial = self.directory / "turn.part"
        partial.write_text(f"{self.number} {name.replace(' ', '-')} {steps}", encoding="utf-8")
        partial.rename(self.directory / "turn")

    def ready(self, deadline):
        while not all((self.directory / f"ready.{name.replace(' ', '-')}").exists() for name in VARIANTS):
            if time.monotonic() > deadline or any(job.process.poll() is not None for job in self.jobs.values()):
                raise RuntimeError(f"{self.kind}: not all jobs began to make steps")
            time.sleep(0.1)

    def block(self, name, steps, deadline):
        self.give(name, steps)
        answer = self.directory / str(self.number)
        while not answer.exists():
            if time.monotonic() > deadline or self.jobs[name].process.poll() is not None:
                raise RuntimeError(f"{self.kind}: no answer of {name}")
            time.sleep(0.002)
        return float(answer.read_text(encoding="utf-8"))

    def measure(self, rounds, deadline):
        found = {name: {"times": []} for name in VARIANTS}
        names = list(VARIANTS)
        for _ in range(2):  # the first steps of a job load and connect things
            usual = statistics.median([self.block(name, 3, deadline) for name in names])
        steps = max(2, round(BLOCK_S / usual) - WARM)
        for number in range(rounds):
            if time.monotonic() + 2 * len(names) * BLOCK_S > deadline:
                break
            shift = number % len(names)
            one = {name: self.block(name, steps, deadline) for name in names[shift:] + names[:shift]}
            for name, seconds in one.items():
                found[name]["times"].append(seconds)
        return steps, found

    def captured(self, name):
        """The job was captured by itself: these are no standing costs."""
        return any("are captured" in line for _, line in self.jobs[name].lines)

    def end(self):
        self.give("end", 0)
        limit = time.monotonic() + 25
        for job in self.jobs.values():
            job.wait(limit - time.monotonic())


def table(kind, ranks, steps, found):
    rounds = len(found["bare"]["times"])
    rows = []
    for name, one in found.items():
        row = {"kind": kind, "variant": name, "ranks": ranks, "rounds": rounds, "steps": steps,
               "ms": 1e3 * statistics.median(one["times"]), "times": one["times"]}
        against = timing.percents(found, "bare", name)
        row.update(percent=statistics.median(against), least=min(against), most=max(against),
                   error=timing.standard_error(against) if rounds > 2 else None)
        rows.append(row)
    return rows


def row_text(row):
    error = "-" if row["error"] is None else f"{row['error']:.2f}"
    captured = ", captured" if row["captured"] else ""
    return (f"| {row['kind']} | {row['variant']} | {row['ms']:.2f} | {row['percent']:+.2f} % "
            f"({row['least']:+.2f} to {row['most']:+.2f}) | {error} | {row['rounds']} × {row['steps']}{captured} |")


def measure(machine, rounds, deadline, tell):
    """Rows of the table, by kind; the jobs of all kinds start at once."""
    turns = []
    try:
        for kind in KINDS:
            turns.append(Turns(machine, kind))
        for number, one in enumerate(turns):
            one.ready(min(time.monotonic() + START_S, deadline))
            share = (deadline - time.monotonic()) / (len(turns) - number)
            steps, found = one.measure(rounds, time.monotonic() + share - 10)
            rows = table(one.kind, one.ranks, steps, found)
            tell([row | {"captured": one.captured(row["variant"])} for row in rows])
            one.end()
    finally:
        for one in turns:
            one.end()
