"""Kills of a random rank at a random instant: verdict, exit status, report, and what is left behind.

usage: random_kills.py [--build DIR] [--kills 200] [--ranks 4] [--seconds 2] [--seed 1] [--torch]

Each trial runs a job of RANKS processes below xpurun, in a directory of its own that is also its TMPDIR, HOME and
XDG_RUNTIME_DIR, and sends SIGKILL to one rank between its birth and SECONDS later. Right is: the verdict is a crash
of that rank alone by signal 9, the exit status is 137, the run directory has a report that names the rank. Nothing is
left behind: no process of the trial, no new entry in /dev/shm, no new Unix socket, no file outside the run directory
except the cache of symbols.
--torch makes the ranks a torch.distributed job with gloo; without it they are plain Python. Prints one line for each
wrong trial; the exit status is 1 if there was one.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import bench_support

LAUNCHER = """
import os, subprocess, sys
ranks = int(sys.argv[1])
env = dict(os.environ, WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
           MASTER_PORT=sys.argv[3])
started = [subprocess.Popen([sys.executable, sys.argv[2]], env=dict(env, RANK=str(i), LOCAL_RANK=str(i)))
           for i in range(ranks)]
while started:
    pid, status = os.wait()
    if status:
        for process in started:
            if process.pid != pid:
                process.terminate()
        for process in started:
            if process.pid != pid:
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
        sys.exit(1)
    started = [process for process in started if process.pid != pid]
"""
PLAIN = """
import time
def step():
    time.sleep(0.005)
    return sum(range(2000))
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    step()
"""
TORCH = """
import time, torch, torch.distributed as dist
dist.init_process_group("gloo")
end = time.monotonic() + {seconds}
flag = torch.ones(1)
while flag.item():
    flag.fill_(float(time.monotonic() < end))
    dist.all_reduce(flag, dist.ReduceOp.MIN)
    time.sleep(0.005)
dist.destroy_process_group()
"""
MARK = "XPURUN_RANDOM_KILLS"


def environ_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def processes(mark):
    """Living processes of the trial, with their environments."""
    wanted = f"{MARK}={mark}".encode()
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            environ = environ_of(entry.name)
            if wanted in environ:
                yield int(entry.name), environ


def unix_sockets(home):
    """Names of bound Unix sockets below the directory, and of abstract ones."""
    lines = pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]
    names = {fields[7] for fields in (line.split() for line in lines) if len(fields) > 7}
    return {name for name in names if name.startswith((str(home), "@xpurun"))}


class Trial:
    def __init__(self, args, chance, number):
        self.args, self.chance, self.number = args, chance, number
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="xpurun-kills-"))
        self.out = self.home / "out"
        self.rank = chance.randrange(args.ranks)

    def start(self):
        job, launcher = self.home / "job.py", self.home / "launch.py"
        job.write_text((TORCH if self.args.torch else PLAIN).format(seconds=self.args.seconds))
        launcher.write_text(LAUNCHER)
        tmp = self.home / "tmp"
        tmp.mkdir(mode=0o700)
        self.kept = {launcher, job, tmp}
        env = {**os.environ, MARK: str(self.home), "TMPDIR": str(tmp), "HOME": str(tmp), "XDG_RUNTIME_DIR": str(tmp),
               "XDG_CACHE_HOME": str(self.home / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [bench_support.program_of(self.args), "--out", self.out, "--", bench_support.PYTHON, launcher,
                   str(self.args.ranks), job, str(20000 + self.number % 20000)]
        return subprocess.Popen(command, env=env, cwd=tmp, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def victim(self, deadline):
        """The PID of the chosen rank, as soon as it runs the job's program."""
        while time.monotonic() < deadline:
            for pid, environ in processes(self.home):
                if f"RANK={self.rank}".encode() in environ:
                    return pid
            time.sleep(0.002)
        return None

    def run(self):
        """What is wrong, as a list of sentences; None if the rank had ended before its kill."""
        shm, sockets = set(os.listdir("/dev/shm")), unix_sockets(self.home)
        process = self.start()
        pid = self.victim(time.monotonic() + 60)
        if pid is None:
            process.kill()
            process.wait()
            return ["no rank appeared within 60 s"]
        time.sleep(self.chance.random() * self.args.seconds)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            process.wait()
            return None
        status = process.wait(timeout=120)
        if status == 0:
            return None  # the kill met a process that had ended already
        wrong = self.judge(status)
        left = [p for p, _ in processes(self.home)]
        if left:
            wrong.append(f"left behind: processes {left}")
        for what, before, after in (("/dev/shm", shm, set(os.listdir("/dev/shm"))),
                                    ("Unix sockets", sockets, unix_sockets(self.home))):
            if after - before:
                wrong.append(f"left behind in {what}: {sorted(after - before)}")
        known = {self.out, self.home / "cache"}
        files = {p for p in self.home.rglob("*") if not known & {p, *p.parents}} - self.kept
        if files:
            wrong.append(f"left behind outside the run directory: {sorted(map(str, files))}")
        return wrong

    def judge(self, status):
        wrong = []
        if status != 128 + signal.SIGKILL:
            wrong.append(f"exit status {status}")
        try:
            verdict = json.loads((self.out / "verdict.json").read_text())
        except (OSError, ValueError) as error:
            return [*wrong, f"no verdict: {error}"]
        facts = verdict["kind"], verdict["ranks"], verdict["signal"]
        if facts not in (("crash", [self.rank], 9), ("crash", str(self.rank), 9)):
            wrong.append(f"rank {self.rank} was killed, the verdict says {facts}: {verdict['sentence']}")
        pages = list(self.out.rglob("report.html"))
        if not pages:
            wrong.append("no report")
        elif f"rank {self.rank}" not in pages[0].read_text().lower():
            wrong.append("the report does not name the rank")
        return wrong


def main():
    parser = bench_support.arguments(__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--torch", action="store_true")
    args = parser.parse_args()
    chance = random.Random(args.seed)
    right = wrong = late = number = 0
    began = time.monotonic()
    while right + wrong < args.kills:
        number += 1
        trial = Trial(args, chance, number)
        result = trial.run()
        if result:
            wrong += 1
            print(f"trial {number}, files kept in {trial.home}: " + "; ".join(result), flush=True)
            continue
        shutil.rmtree(trial.home, ignore_errors=True)
        right, late = right + (result == []), late + (result is None)
    print(f"{right + wrong} kills: {right} right, {wrong} wrong; {late} trials in which the rank had ended before;"
          f" {(time.monotonic() - began) / number:.1f} s a trial")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
