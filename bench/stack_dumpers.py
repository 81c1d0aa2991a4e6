#!/usr/bin/env python3
"""xpurun against py-spy, pystack and gdb on the same process, in one run: the pause of the process, and
the time until all stacks with symbols are ready.

usage: bench/stack_dumpers.py [--build DIR] [--rounds N] [--threads N] [--install] [--peers DIR]

The pause is measured in the same way for all tools: a C thread in the target records the time every 50
microseconds; the pause is the longest gap between two records during the dump, minus the longest gap of an equally long
period without a dump. --install makes a virtual environment with py-spy and pystack from PyPI in --peers first.
"""

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from bench_support import PYTHON, arguments, target_text

TICKER = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>
#include <sched.h>
static uint64_t now(void) {
  struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}
/* page[0]: command, 1 resets; page[1]: longest gap since then, page[2]: ticks */
static void *run(void *page_) {
  volatile uint64_t *page = page_;
  struct timespec pause = {0, 50000};
  uint64_t last = now();
  for (;;) {
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, 0);
    uint64_t t = now();
    if (page[0]) { page[0] = 0; page[1] = 0; page[2] = 0; }
    else if (t - last > page[1]) page[1] = t - last;
    last = t;
    page[2]++;
  }
  return 0;
}
int start_ticking(const char *file) {
  int fd = open(file, O_RDWR);
  void *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  pthread_t t;
  pthread_create(&t, 0, run, page);
  struct sched_param p = {1};
  return pthread_setschedparam(t, SCHED_RR, &p);
}
"""

TARGET = target_text("import ctypes; ctypes.CDLL(sys.argv[2]).start_ticking(sys.argv[3].encode())")


class Ticks:
    def __init__(self, path):
        import mmap
        self.fd = os.open(path, os.O_RDWR)
        self.page = mmap.mmap(self.fd, 4096)

    def value(self, slot):
        return int.from_bytes(self.page[slot * 8:slot * 8 + 8], sys.byteorder)

    def reset(self):
        self.page[0:8] = (1).to_bytes(8, sys.byteorder)
        while self.value(0):
            time.sleep(0.0005)

    def longest_ms(self):
        return self.value(1) / 1e6


def find_peers(args):
    if args.install and not os.path.exists(os.path.join(args.peers, "bin", "py-spy")):
        subprocess.run([sys.executable, "-m", "venv", args.peers], check=True)
        subprocess.run([os.path.join(args.peers, "bin", "pip"), "-q", "install", "py-spy", "pystack"], check=True)
    def find(name):
        own = os.path.join(args.peers, "bin", name)
        return own if os.path.exists(own) else shutil.which(name)
    return find


def commands(args, pid, folder):
    find = find_peers(args)
    out = os.path.join(folder, "x.stacks.json")
    yield "xpurun-stackdump", [os.path.join(args.build, "stackdump/xpurun-stackdump"), "--pid", pid, "--out", out,
                               "--deadline-ms", "2000"]
    yield "xpurun stacks --pid", [
        os.path.join(args.build, "commands/xpurun"),
        "stacks",
        "--pid",
        pid,
        "--deadline",
        "2s",
    ]
    if find("py-spy"):
        yield "py-spy dump", [find("py-spy"), "dump", "--pid", pid]
        yield "py-spy dump --native", [find("py-spy"), "dump", "--native", "--pid", pid]
    if find("pystack"):
        yield "pystack remote --native-all", [find("pystack"), "remote", "--native-all", pid]
    if find("gdb"):
        yield "gdb thread apply all bt", [
            find("gdb"),
            "-nx",
            "-q",
            "-batch",
            "-iex",
            "set debuginfod enabled off",
            "-ex",
            "set pagination off",
            "-ex",
            "thread apply all bt",
            "-p",
            pid,
        ]


def spread(values):
    values = sorted(values)
    return f"{statistics.median(values):9.1f} ({values[0]:.1f} to {values[-1]:.1f})"


def main():
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=150)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--peers", default=os.path.expanduser("~/.cache/xpurun-bench-peers"))
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    with tempfile.TemporaryDirectory() as folder:
        ticker, library, page = (os.path.join(folder, n) for n in ("ticker.c", "ticker.so", "page"))
        with open(ticker, "w") as f:
            f.write(TICKER)
        with open(page, "wb") as f:
            f.write(bytes(4096))
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-pthread", "-o", library, ticker], check=True)
        target = subprocess.Popen([PYTHON, "-c", TARGET, str(args.threads), library, page],
                                  stdout=subprocess.PIPE, text=True)
        try:
            what = target.stdout.readline().strip()
            ticks = Ticks(page)
            print(f"target: {what}, {len(os.listdir(f'/proc/{target.pid}/task'))} threads; {os.cpu_count()} cores, "
                  f"load {os.getloadavg()[0]:.1f}")
            rows, quiet = {}, []
            for _ in range(args.rounds):
                # In turns, so that load peaks of the machine affect all dumpers.
                for name, command in commands(args, str(target.pid), folder):
                    ticks.reset()
                    begun = time.perf_counter()
                    done = subprocess.run(
                        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False
                    )
                    total = (time.perf_counter() - begun) * 1e3
                    rows.setdefault(name, []).append((ticks.longest_ms(), total, done.returncode))
                    ticks.reset()
                    time.sleep(0.2)
                    quiet.append(ticks.longest_ms())
            still = statistics.median(quiet)
            print(f"longest gap without any dump: median {still:.2f} ms, max {max(quiet):.2f} ms\n")
            print(f"{'':28}  {'paused, ms: median (spread)':34} total, ms: median (spread)")
            medians = {}
            for name, runs in rows.items():
                failed = sum(rc != 0 for _, _, rc in runs)
                pauses = [max(p - still, 0.0) for p, _, _ in runs]
                medians[name] = (statistics.median(pauses), statistics.median(t for _, t, _ in runs))
                print(f"{name:28}  {spread(pauses):34} {spread([t for _, t, _ in runs])}"
                      f"{f'  {failed} of {len(runs)} failed' if failed else ''}")
            peers = {n: m for n, m in medians.items() if not n.startswith("xpurun") and n != "py-spy dump"}
            if peers:
                own = medians["xpurun-stackdump"]
                best_pause, best_total = min(p for p, _ in peers.values()), min(t for _, t in peers.values())
                print(
                    f"\npause: {best_pause / max(own[0], 0.01):.0f} times less than the best peer with native frames; "
                    f"total with symbols: {medians['xpurun stacks --pid'][1] / best_total:.2f} of the fastest's"
                )
        finally:
            target.send_signal(signal.SIGKILL)
            target.wait()


if __name__ == "__main__":
    main()
