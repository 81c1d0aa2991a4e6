"""Short healthy jobs: any verdict but "nothing wrong" is a false alarm.

usage: short_jobs.py [--build DIR] [--jobs 200] [--ranks 4] [--seed 1] [--hang-timeout 1] [--torch]

Each job has RANKS processes and ends by itself after 0 to 3 s. Its ranks compute, sleep, wait for a child, wait for a
thread, write and read files, or rank 0 works alone while the others sleep. The hang timeout is short, so that jobs live
longer than the timeout; a stall may then be told and its stacks may be taken. Right is: exit status 0, the last verdict
is "none", and the word "hang" is never printed. Prints one line for each false alarm; the exit status is 1 if there was
one. --torch makes all ranks meet in collectives of gloo too.
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import bench_support
import random_kills

WORK = {
    "compute": "while time.monotonic() < end: sum(range(20000))",
    "sleep": "while time.monotonic() < end: time.sleep(0.05)",
    "child": "subprocess.run([sys.executable, '-c', 'import time; end = time.monotonic() + %f\\n'\n"
             "    'while time.monotonic() < end: sum(range(20000))'])",
    "thread": "def work():\n    while time.monotonic() < end: sum(range(20000))\n"
              "worker = threading.Thread(target=work); worker.start(); worker.join()",
    "files": "while time.monotonic() < end:\n    with open(f'file-{os.getpid()}', 'w+b') as file:\n"
             "        file.write(b'x' * 1000000); file.seek(0); file.read()",
    "rank-0-alone": "while time.monotonic() < end:\n"
                    "    sum(range(20000)) if os.environ['RANK'] == '0' else time.sleep(0.01)",
}
HEAD = "import os, subprocess, sys, threading, time\nend = time.monotonic() + %f\n"
MEET = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for _ in range(20):
    dist.all_reduce(torch.ones(1000))
dist.destroy_process_group()
"""


def program(kind, seconds, torch):
    work = WORK[kind] % seconds if "%f" in WORK[kind] else WORK[kind]
    return HEAD % seconds + work + "\n" + (MEET if torch else "")


def alarms(home, done):
    """What is wrong with a job that has ended, as a list of sentences."""
    wrong = []
    if done.returncode != 0 or "hang" in done.stderr:
        wrong.append(f"exit status {done.returncode}, standard error {done.stderr!r}")
    verdict = json.loads((home / "out/verdict.json").read_text())
    if verdict["kind"] != "none":
        wrong.append(f"verdict: {verdict['sentence']}")
    return wrong


def main():
    parser = bench_support.arguments(__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hang-timeout", type=float, default=1)
    parser.add_argument("--torch", action="store_true")
    args = parser.parse_args()
    chance = random.Random(args.seed)
    false = 0
    began = time.monotonic()
    for number in range(args.jobs):
        kind, seconds = chance.choice(sorted(WORK)), chance.random() * 3
        home = pathlib.Path(tempfile.mkdtemp(prefix="xpurun-short-"))
        (home / "job.py").write_text(program(kind, seconds, args.torch))
        (home / "launch.py").write_text(random_kills.LAUNCHER)
        done = subprocess.run(
            [bench_support.program_of(args), "--hang-timeout", str(args.hang_timeout), "--out", home / "out", "--",
             bench_support.PYTHON, home / "launch.py", str(args.ranks), home / "job.py", str(20000 + number)],
            cwd=home, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if wrong := alarms(home, done):
            false += 1
            print(f"job {number}, {kind}, {seconds:.1f} s, files kept in {home}: " + "; ".join(wrong), flush=True)
        else:
            shutil.rmtree(home)
    print(f"{args.jobs} jobs, {false} false alarms; {(time.monotonic() - began) / args.jobs:.1f} s a job")
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main())
