"""The programs of MPI-CorrBench under xpurun.

    python3 bench/mpi_corrbench.py XPURUN CHECKOUT [--mpi openmpi|mpich] [--kinds wrong,correct] [--only TEXT]

CHECKOUT is a checkout of https://github.com/tudasc/MPI-Corrbench. Each program in C of the micro-benches of level 0 is
compiled and runs twice with two ranks: alone, which tells whether the program ends, crashes or hangs, and under
`xpurun --hang-timeout 5 --on-hang kill`. Programs that hang alone must get a verdict of a hang with a line of the
program within the timeout and 3 s; programs that crash, a line of the program; correct programs, no verdict and the
same status. Prints one line per program that falls short, then the table.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TIMEOUT_S = 5
ALONE_S = 12
CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGABRT, signal.SIGILL}


class Suite:
    def __init__(self, xpurun, checkout, mpi, scratch):
        self.xpurun = xpurun
        self.root = pathlib.Path(checkout, "micro-benches", "0-level")
        self.mpi = mpi
        self.scratch = pathlib.Path(scratch)
        self.environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    def programs(self, kind):
        found = sorted(self.root.rglob("*.c"))
        correct = self.root / "correct"
        return [p for p in found if (correct in p.parents) == (kind == "correct") and "openmp" not in p.parts]

    def compile(self, source):
        target = self.scratch / "program"
        include = self.root / "correct" / "include"
        command = [f"mpicc.{self.mpi}", "-g", "-w", "-o", str(target), str(source), f"-I{include}",
                   "-DHAVE_MPI_WIN_CREATE"]
        extra = list(include.parent.glob("util/*.c")) if include.parent in source.parents else []
        ran = subprocess.run(command + [str(p) for p in extra] + ["-lm"], capture_output=True, check=False)
        return target if ran.returncode == 0 else None

    def mpirun(self, program):
        options = ["--oversubscribe"] if self.mpi == "openmpi" else []
        return [f"mpirun.{self.mpi}", *options, "-n", "2", str(program)]

    def run(self, command, limit_s):
        """Status, None if the command had to be killed, output, and seconds."""
        begin = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self.environment,
                              cwd=self.scratch, start_new_session=True, text=True, errors="replace") as process:
            try:
                output, _ = process.communicate(timeout=limit_s)
                return process.returncode, output, time.monotonic() - begin
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, _ = process.communicate()
                return None, output, time.monotonic() - begin

    def alone(self, program):
        status, output, _ = self.run(self.mpirun(program), ALONE_S)
        if status is None:
            return "hang", status
        crashed = re.search(r"exited on signal|KILLED BY SIGNAL|EXIT CODE: (6|11|7|8)\b|Segmentation fault", output)
        if crashed:
            return "crash", status
        return ("error" if status else "end"), status

    def watched(self, program):
        out = self.scratch / "run"
        shutil.rmtree(out, ignore_errors=True)
        command = [self.xpurun, "--hang-timeout", str(TIMEOUT_S), "--on-hang", "kill", "--grace", "2",
                   "--out", str(out), "--"]
        status, _, _ = self.run(command + self.mpirun(program), 60)
        try:
            verdict = json.loads((out / "verdict.json").read_text())
            stalls = json.loads((out / "run.json").read_text()).get("stalls", [])
        except (OSError, ValueError):
            return status, {}, []
        return status, verdict, stalls


def has_line(verdict, source):
    places = [verdict.get("where") or {}]
    places += [row.get("where") or {} for row in (verdict.get("collective") or {}).get("calls", [])]
    places += [row.get("where") or {} for row in verdict.get("waiting", [])]
    return any(os.path.basename(place.get("file", "")) == source.name and place.get("line", 0) > 0 for place in places)


def judge(suite, kind, source, program):
    """The class of the program, and what falls short; empty if nothing."""
    what, status_alone = suite.alone(program)
    status, verdict, stalls = suite.watched(program)
    sentence = verdict.get("sentence", "")
    if kind == "correct":
        if what == "hang":
            return what, ""
        wrong = status != status_alone or (not status and verdict.get("kind") not in ("none", None))
        return what, f"status {status} instead of {status_alone}: {sentence}" if wrong else ""
    if what == "hang":
        if verdict.get("kind") != "hang" or verdict.get("level") != "confirmed":
            return what, f"no verdict of a hang: {sentence}"
        late = stalls[0].get("at_s", 0) - stalls[0].get("since_s", 0) if stalls else 0
        if late > TIMEOUT_S + 3:
            return what, f"late, after {late:.1f} s: {sentence}"
        return what, "" if has_line(verdict, source) else f"no line: {sentence}"
    if what == "crash":
        return what, "" if has_line(verdict, source) else f"no line: {sentence}"
    return what, "" if verdict.get("kind") != "hang" else f"a hang: {sentence}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("xpurun")
    parser.add_argument("checkout")
    parser.add_argument("--mpi", default="openmpi", choices=("openmpi", "mpich"))
    parser.add_argument("--kinds", default="wrong,correct")
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    table = {}
    with tempfile.TemporaryDirectory() as scratch:
        suite = Suite(os.path.abspath(options.xpurun), os.path.abspath(options.checkout), options.mpi, scratch)
        for kind in options.kinds.split(","):
            for source in suite.programs(kind):
                if options.only not in str(source):
                    continue
                program = suite.compile(source)
                what, short = judge(suite, kind, source, program) if program else ("not compiled", "")
                row = table.setdefault((kind, what), [0, 0])
                row[0] += 1
                row[1] += 0 if short else 1
                if short or options.verbose:
                    print(f"{kind} {what} {source.relative_to(suite.root)}: {short or 'right'}", flush=True)
    print("\n| programs | alone | number | right |\n| --- | --- | --- | --- |")
    for (kind, what), (number, right) in sorted(table.items()):
        print(f"| {kind} | {what} | {number} | {right} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
