#!/usr/bin/env python3
"""Jobs that start very many processes: how many starts a second, bare and under xpurun, and xpurun's own CPU time.

usage: process_storms.py [--build DIR] [--than DIR] [--seconds 6] [--rounds 3] [--children 10000] [--ranks 512]
                         [--only NAME]

c-fork, python-fork: a rank in C or Python that forks children, which end at once. c-start, python-start: a rank that
starts /bin/true. Bare runs, runs under xpurun and, with --than, under the xpurun of another build directory alternate.
The medians of the numbers of starts, and of the CPU time that the job needs for a start, are printed: on a machine with
other work, only the CPU time says something. children: a rank with CHILDREN sleeping processes that starts 1,000
programs a second; prints the share of one core that xpurun takes in the twenty seconds after SECONDS. ranks: RANKS
ranks without Python that wake ten times a second; prints the same share, and xpurun's memory. short: 50 times
`xpurun -- true`. Exits 1 if a job failed.
"""

import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import bench_support

C_FORK = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
static double s_of(struct timeval t) { return t.tv_sec + 1e-6 * t.tv_usec; }
static double cpu(int who) { struct rusage u; getrusage(who, &u); return s_of(u.ru_utime) + s_of(u.ru_stime); }
int main(int argc, char** argv) {
  double end = now() + atof(argv[1]);
  int n = 0;
  for (; now() < end; ++n) {
    pid_t child = START;
    if (child == 0) { CHILD; _exit(0); }
    waitpid(child, 0, 0);
  }
  printf("%d %f\n", n, cpu(RUSAGE_SELF) + cpu(RUSAGE_CHILDREN));
  return 0;
}
"""
PY_FORK = """
import os, sys, time
end, n = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    n += 1
print(n, sum(os.times()[:4]))
"""
PY_START = """
import os, subprocess, sys, time
end, n = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end:
    subprocess.run(["/bin/true"])
    n += 1
print(n, sum(os.times()[:4]))
"""
# Sleeping children, and starts at a fixed rate. The children die with the rank.
CHILDREN = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
int main(int argc, char** argv) {
  int children = atoi(argv[1]), n = 0;
  double begun = now(), end = begun + atof(argv[2]), rate = atof(argv[3]);
  for (int i = 0; i < children; ++i)
    if (vfork() == 0) { prctl(PR_SET_PDEATHSIG, SIGKILL); execl("/bin/sleep", "sleep", "1000", (char*)0); _exit(1); }
  printf("up after %.1f s\n", now() - begun);
  fflush(stdout);
  for (double begin = now(); now() < end; ++n) {
    while (n > rate * (now() - begin)) usleep(500);
    pid_t child = vfork();
    if (child == 0) { execl("/bin/true", "true", (char*)0); _exit(1); }
    waitpid(child, 0, 0);
  }
  printf("%.0f starts a second\n", n / (now() - begun));
  return 0;
}
"""
RANKS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char** argv) {
  int ranks = atoi(argv[1]), seconds = atoi(argv[2]);
  char number[16];
  if (getenv("RANK")) {
    for (int i = 0; i < 10 * seconds; ++i) usleep(100000);
    return 0;
  }
  setenv("WORLD_SIZE", argv[1], 1);
  for (int i = 0; i < ranks; ++i) {
    snprintf(number, sizeof number, "%d", i);
    setenv("RANK", number, 1);
    setenv("LOCAL_RANK", number, 1);
    if (fork() == 0) { execv(argv[0], argv); _exit(1); }
  }
  puts("started");
  fflush(stdout);
  while (wait(0) > 0);
  return 0;
}
"""
RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}


def program(work, name, source):
    if not source.lstrip().startswith("#"):
        path = work / f"{name}.py"
        path.write_text(source)
        return [bench_support.PYTHON, path]
    (work / f"{name}.c").write_text(source)
    subprocess.run(["cc", "-O1", "-w", "-o", work / name, work / f"{name}.c"], check=True)
    return [work / name]


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def starts(command, seconds):
    done = subprocess.run([*command, str(seconds)], env={**os.environ, **RANK}, capture_output=True, text=True,
                          check=True)
    number, cpu = map(float, done.stdout.split()[-2:])
    return number, 1e6 * cpu / number


def storm(programs, name, command, args):
    runs = {"bare": [], **{label: [] for label in programs}}
    for _ in range(args.rounds):
        for label, found in runs.items():
            with tempfile.TemporaryDirectory() as out:
                under = [programs[label], "-q", "--no-report", "--out", f"{out}/run", "--"] if label != "bare" else []
                found.append(starts([*under, *command], args.seconds))
    bare = [statistics.median(values) for values in zip(*runs["bare"])]
    print(f"{name}: bare {bare[0] / args.seconds:.0f} starts a second, {bare[1]:.0f} us of CPU each", end="")
    for label in programs:
        number, cpu = (statistics.median(values) for values in zip(*runs[label]))
        print(f"; {label} {number / args.seconds:.0f} ({100 * (number / bare[0] - 1):+.1f} %), {cpu:.0f} us "
              f"({100 * (cpu / bare[1] - 1):+.1f} %)", end="")
    print(flush=True)


def short(programs, args):
    times = {label: [] for label in programs}
    for _ in range(50):
        for label, xpurun in programs.items():
            with tempfile.TemporaryDirectory() as out:
                before, begun = sum(os.times()[2:4]), time.monotonic()
                subprocess.run([xpurun, "--out", f"{out}/run", "--", "true"], check=True, stderr=subprocess.DEVNULL)
                times[label].append((time.monotonic() - begun, sum(os.times()[2:4]) - before))
    for label, found in times.items():
        walls, cpus = zip(*found)
        print(f"xpurun -- true, 50 times, {label}: {bench_support.spread([1000 * wall for wall in walls], 'ms')}, CPU "
              f"{1000 * statistics.median(cpus):.0f} ms", flush=True)


def children(xpurun, command, args):
    length = args.seconds + 22 + args.children / 500
    with tempfile.TemporaryDirectory() as out:
        job = subprocess.Popen([xpurun, "-q", "--no-report", "--out", f"{out}/run", "--hang-timeout", "20", "--",
                                *command, str(args.children), str(length), "1000"], env={**os.environ, **RANK},
                               stdout=subprocess.PIPE, text=True)
        print(f"{args.children} children {job.stdout.readline().strip()}", end=", ", flush=True)
        started = cpu_s(job.pid)
        time.sleep(args.seconds)
        before, begun = cpu_s(job.pid), time.monotonic()
        time.sleep(20)
        share = (cpu_s(job.pid) - before) / (time.monotonic() - begun)
        rest = job.stdout.read().strip()
        log = (pathlib.Path(out) / "run/xpurun.log").stat().st_size
        print(f"{rest}: xpurun takes {100 * share:.1f} % of a core ({started:.2f} s until all were up), "
              f"log {log} bytes", flush=True)
        return job.wait() == 0


def ranks(xpurun, command, args):
    with tempfile.TemporaryDirectory() as out:
        job = subprocess.Popen([xpurun, "-q", "--no-report", "--out", f"{out}/run", "--", *command, str(args.ranks),
                                str(int(args.seconds) + 25)], stdout=subprocess.PIPE, text=True)
        job.stdout.readline()
        time.sleep(args.seconds)
        started, before, begun = cpu_s(job.pid), cpu_s(job.pid), time.monotonic()
        time.sleep(20)
        share = (cpu_s(job.pid) - before) / (time.monotonic() - begun)
        status = pathlib.Path(f"/proc/{job.pid}/status").read_text()
        peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        print(f"{args.ranks} ranks: xpurun takes {100 * share:.1f} % of a core ({started:.2f} s in the first "
              f"{args.seconds:.0f} s), {peak / 1024:.0f} MiB", flush=True)
        return job.wait() == 0


def main():
    parser = bench_support.arguments(__doc__)
    parser.add_argument("--than", help="another build directory")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--children", type=int, default=10000)
    parser.add_argument("--ranks", type=int, default=512)
    parser.add_argument("--only", help="one of the names above")
    args = parser.parse_args()
    programs = {"xpurun": bench_support.program_of(args)}
    if args.than:
        programs["other build"] = os.path.abspath(os.path.join(args.than, "commands/xpurun"))
    work = pathlib.Path(tempfile.mkdtemp(prefix="xpurun-storms-"))
    c_start = C_FORK.replace("START", "vfork()").replace("CHILD;", 'execl("/bin/true", "true", (char*)0);')
    storms = {"c-fork": C_FORK.replace("START", "fork()").replace("CHILD;", ""), "python-fork": PY_FORK,
              "c-start": c_start, "python-start": PY_START}
    good = True
    try:
        for name, source in storms.items():
            if args.only in (None, name):
                storm(programs, name, program(work, name, source), args)
        if args.only in (None, "short"):
            short(programs, args)
        if args.only in (None, "children"):
            command = program(work, "children", CHILDREN)
            good &= all([children(xpurun, command, args) for xpurun in programs.values()])
        if args.only in (None, "ranks"):
            command = program(work, "ranks", RANKS)
            good &= all([ranks(xpurun, command, args) for xpurun in programs.values()])
    finally:
        shutil.rmtree(work)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
