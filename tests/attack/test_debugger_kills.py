"""Kills every process involved at random moments while a debugger attaches: no target may be left
stopped. XPURUN_ATTACK_KILLS sets the number of kills (20, or 40 in the long lane; a campaign has 1000)."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from lane import LONG

STACKDUMP = os.environ["XPURUN_STACKDUMP"]
KILLS = int(os.environ.get("XPURUN_ATTACK_KILLS", "40" if LONG else "20"))
SEED = int(os.environ.get("XPURUN_ATTACK_SEED", "1"))
SIGSTOP_BIT = 1 << (signal.SIGSTOP - 1)

# Sixty threads, a few of them spinning; a main thread in the given state.
VICTIM = r"""
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static void* spin(void* p) { for (;;) ; return p; }
static void* wait(void* p) { for (;;) pause(); return p; }
static void doze(double s) { struct timespec t = {(time_t)s, (long)((s - (time_t)s) * 1e9)}; nanosleep(&t, 0); }
static void vfork_for(double s) { if (vfork() == 0) { doze(s); _exit(0); } }  /* state D until the child ends */
int main(int argc, char** argv) {
  pthread_t t;
  (void)argc;
  char state = argv[1][0];
  for (int i = 0; i < 60; ++i) pthread_create(&t, 0, state == 'R' && i % 30 == 0 ? spin : wait, 0);
  puts("ready");
  fflush(stdout);
  for (;;) {
    if (state == 'D') vfork_for(1000);
    else if (state == 'd') { vfork_for(0.7); doze(0.25); }  /* now and then */
    else if (state == 'R') spin(0);
    else pause();
  }
}
"""


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read().decode(errors="replace")
    except OSError:
        return ""


def fields(pid, tid):
    return dict(line.split(":\t", 1) for line in read(f"/proc/{pid}/task/{tid}/status").splitlines() if ":\t" in line)


def harm(pid):
    """Problems with the threads of a process."""
    out = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        f = fields(pid, tid)
        if f and (f["State"][0] in "tT" or f["TracerPid"] != "0" or int(f["SigPnd"], 16) & SIGSTOP_BIT):
            out.append((tid, f["State"], f["TracerPid"], f["SigPnd"]))
    return out


def descendants(pid):
    out = []
    for tid in os.listdir(f"/proc/{pid}/task") if os.path.exists(f"/proc/{pid}/task") else ():
        for child in read(f"/proc/{pid}/task/{tid}/children").split():
            out += [int(child), *descendants(int(child))]
    return out


def comm(pid):
    return read(f"/proc/{pid}/comm").strip()


def involved(marker, target):
    """Living guards and debuggers of this target."""
    out = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        words = read(f"/proc/{pid}/cmdline")
        if comm(pid) in ("gdb", "cuda-gdb", "xpurun-guard") and (marker in words or f"-p\0{target}\0" in words):
            out.append(int(pid))
    return out


class Kills(unittest.TestCase):
    def setUp(self):
        for tool in ("gdb", "cc"):
            if not shutil.which(tool):
                self.skipTest(f"{tool} is not installed")
        folder = tempfile.TemporaryDirectory(prefix="xpurun-kills-")
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        source, self.victim = f"{self.dir}/victim.c", f"{self.dir}/victim"
        with open(source, "w") as f:
            f.write(VICTIM)
        subprocess.run(["cc", "-O1", "-pthread", "-o", self.victim, source], check=True)
        self.cuda_gdb = f"{self.dir}/cuda-gdb"
        with open(self.cuda_gdb, "w") as f:
            f.write(
                "#!/bin/sh\nshift 11\ngdb -nx -q -batch -ex 'shell sleep 0.1' \"$@\"\n"
            )  # not by exec, as a wrapper
        os.chmod(self.cuda_gdb, 0o700)

    def start(self, state):
        p = subprocess.Popen([self.victim, state], stdout=subprocess.PIPE)
        p.stdout.readline()

        def end():
            # The target first: as soon as its child ends, it starts another one.
            for pid in [p.pid, *descendants(p.pid)]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            p.wait()
            p.stdout.close()
        self.addCleanup(end)
        return p

    def command(self, target, fallback, limit_ms, out):
        words = [STACKDUMP, "--pid", str(target.pid), "--out", out]
        if fallback == "gdb":
            return [*words, "--unwinder", "gdb", "--gdb-limit-ms", str(limit_ms)]
        return [*words, "--gpu-stacks", "always", "--cuda-gdb", self.cuda_gdb, "--gpu-limit-ms", str(limit_ms)]

    def kill(self, whom, helper):
        def one(number):
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                pass
        below = descendants(helper.pid)
        if whom == "helper":
            helper.kill()
        elif whom == "helper's group":
            one(-helper.pid)
        elif whom == "guard":
            for pid in filter(lambda p: comm(p) == "xpurun-guard", below):
                one(pid)
        elif whom == "debugger":
            for pid in filter(lambda p: comm(p) == "gdb", below):
                one(pid)
        elif whom == "debugger's group":
            for pid in filter(lambda p: comm(p) == "gdb", below):
                try:
                    group = os.getpgid(pid)
                except ProcessLookupError:
                    continue
                one(-group)

    def test_no_target_is_left_stopped(self):
        rng = random.Random(SEED)
        targets = {state: self.start(state) for state in "SRDd"}
        counts, traced, left = {}, 0, []
        for i in range(KILLS):
            state = rng.choice("SSSRRRDddd")
            target = targets[state]
            fallback = rng.choice(("gdb", "gdb", "cuda-gdb"))
            whom = rng.choice(("helper", "helper's group", "guard", "debugger", "debugger's group", "time limit"))
            limit = rng.randint(1, 400) if whom == "time limit" else 20000
            out = f"{self.dir}/x.stacks.json"
            helper = subprocess.Popen(self.command(target, fallback, limit, out), stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0)
            end = time.monotonic() + rng.uniform(0, 0.5)
            while time.monotonic() < end and helper.poll() is None:
                time.sleep(0.002)
            traced += any(fields(target.pid, t).get("TracerPid", "0") != "0"
                          for t in os.listdir(f"/proc/{target.pid}/task"))
            self.kill(whom, helper)
            helper.wait(60)
            # The guard and the debugger may outlive the helper by a moment.
            end = time.monotonic() + 60
            while involved(self.dir, target.pid) and time.monotonic() < end:
                time.sleep(0.01)
            end = time.monotonic() + 10
            while harm(target.pid) and time.monotonic() < end:
                time.sleep(0.01)
            counts[whom] = counts.get(whom, 0) + 1
            if harm(target.pid):
                left.append((i, state, fallback, whom, harm(target.pid)[:2]))
                os.kill(target.pid, signal.SIGCONT)
            self.assertIsNone(target.poll(), (i, state, fallback, whom))
        print(f"{KILLS} kills {counts}, target traced at {traced} of them, left stopped: {len(left)}", file=sys.stderr)
        self.assertEqual(left, [])
        self.assertGreater(traced, 0)


if __name__ == "__main__":
    unittest.main()
