"""Kills cuda-gdb, the dump helper or xpurun at random moments while cuda-gdb holds a process that uses a GPU,
and counts the processes left stopped. usage: tests/gpu/debugger_kills.py XPURUN [ROUNDS]"""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

JOB = """
import time, torch
x = torch.ones(1 << 20, device="cuda")
torch.cuda.synchronize()
print("ready", flush=True)
while True:
    x.mul_(1.0)
    torch.cuda.synchronize()
    time.sleep(0.001)
"""
# cuda-gdb takes about nine seconds for one process.
LONGEST_S = 9.0
RECOVERY_S = 15.0
VICTIMS = ("cuda-gdb", "xpurun-stackdump", "xpurun-guard", "xpurun")


def status(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    return fields["State"][0], int(fields["TracerPid"])


def processes():
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield int(entry.name), (entry / "comm").read_text().strip()
            except OSError:
                pass


def kill(victim, dumper):
    """The number of killed processes."""
    if victim == "xpurun":
        os.killpg(dumper.pid, signal.SIGKILL)
        return 1
    killed = 0
    for pid, comm in processes():
        if comm.startswith(victim[:15]):
            try:
                os.kill(pid, signal.SIGKILL)
                killed += 1
            except OSError:
                pass
    return killed


def runs_on(pid):
    """Whether the process is neither stopped nor traced within the time for recovery."""
    end = time.monotonic() + RECOVERY_S
    while time.monotonic() < end:
        state, tracer = status(pid)
        if state not in "Tt" and tracer == 0:
            return True
        time.sleep(0.1)
    return False


def main():
    xpurun, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 16
    dice = random.Random(7)
    job = subprocess.Popen([sys.executable, "-c", JOB], stdout=subprocess.PIPE, text=True)
    job.stdout.readline()
    left = 0
    for n in range(rounds):
        victim = VICTIMS[n % len(VICTIMS)]
        dumper = subprocess.Popen([xpurun, "stacks", "--pid", str(job.pid), "--gpu-stacks", "always"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        delay = dice.uniform(0.2, LONGEST_S)
        time.sleep(delay)
        before = status(job.pid)
        killed = kill(victim, dumper)
        good = runs_on(job.pid)
        left += not good
        print(f"round {n}: {victim} after {delay:.1f} s, state {before[0]}, traced by {before[1]}: "
              f"{killed} killed, {'runs on' if good else 'LEFT STOPPED'}", flush=True)
        if not good:
            os.kill(job.pid, signal.SIGCONT)
        dumper.kill()
        dumper.wait()
    job.kill()
    print(f"{rounds} rounds, {left} left stopped")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
