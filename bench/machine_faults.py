#!/usr/bin/env python3
"""Faults of the machine below a job, injected as far as this machine allows, and healthy runs.

usage: bench/machine_faults.py XPURUN [--only WORD] [--part alone|calm] [--healthy N]

Two ranks compute a little and sleep; then a fault is made: another program on the CPU of one rank, a CPU limit, too
few CPUs, a file system that is slow, full or dead, memory that no line of the rank fills, a frozen control group. Then
those that no program can make, by files of /sys and /proc and a stand-in for NVML that the job sees instead of the
kernel's (machine_fakes.py): links, adapters, GPUs, interrupts, frequency, pressure. Each line of the table says whether
the run's findings or verdict (or the counters of `xpurun query`, where no finding is meant to exist) name the cause,
the object and the rank. Afterwards N healthy runs (default 20), which must have no finding about the machine. Needs two
CPUs; FUSE, cgroups, tmpfs and the files of the kernel only as root.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import machine_fakes

SECONDS = 22
CALM_AT_ONCE = 4  # jobs that take nothing from each other
SYSTEM_PYTHON = "/usr/bin/python3"  # has python3-fusepy
HERE = pathlib.Path(__file__).resolve().parent

RANK = r"""
import os, threading, time
rank, cpus, kind, place = int(os.environ["RANK"]), os.environ.get("CPUS"), os.environ["KIND"], os.environ["PLACE"]
hit = rank == 1
if cpus:
    os.sched_setaffinity(0, {int(cpus.split(",")[rank])})
def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
if kind == "crowd" and hit:
    for _ in range(3):
        threading.Thread(target=os.system, args=("sleep 100",), daemon=True).start()
if kind in ("limit", "memory", "segment", "map", "copies", "thrash", "cache") and hit or kind == "loaders":
    open(place + "/tasks", "w").write(str(os.getpid()))
    time.sleep(3)  # until xpurun has seen the rank
if kind == "segment" and hit:
    segment = os.memfd_create("batches")
if kind == "map" and hit:
    import mmap
    private = mmap.mmap(os.open(DATA, os.O_RDWR), 0, access=mmap.ACCESS_COPY)
if kind == "copies" and hit or kind == "loaders":
    rows = [{"id": str(n), "tags": [str(n)]} for n in range(250000 if kind == "copies" else 160000)]
    for worker in range(3):
        if os.fork() == 0:
            for i, row in enumerate(rows):
                kept = row["tags"]
                if i % 1000 == 0:
                    time.sleep(0.03)
            time.sleep(60)
if kind == "thrash" and hit:
    import mmap
    cache = mmap.mmap(os.open(DATA, os.O_RDONLY), 0, prot=mmap.PROT_READ)
end = time.monotonic() + SECONDS
n = 0
while time.monotonic() < end:
    n += 1
    busy = {"hog": 0.02, "limit": 0.02, "crowd": 0.02, "late": 0.02}.get(kind, 0.001)
    spin(busy)
    if kind == "read" and hit:
        with open(place + "/data", "rb", buffering=0) as f:
            f.read(4096)
    elif kind == "write" and hit:
        with open(place + f"/checkpoint", "wb", buffering=0) as f:
            f.write(b"x" * 4096)
            os.fsync(f.fileno())
    elif kind == "faults" and hit:
        fd = os.open(place + "/big", os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        import mmap
        with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as m:
            m.madvise(mmap.MADV_RANDOM)
            for at in range(0, len(m), 1 << 14):
                m[at]
        os.close(fd)
    elif kind == "segment" and hit:
        os.write(segment, b"x" * (1 << 20))
    elif kind == "map" and hit:
        private[n << 20:(n + 1) << 20] = b"y" * (1 << 20)
    elif kind == "thrash" and hit:
        for at in range(0, len(cache), 1 << 14):
            cache[at]
    elif kind == "cache" and hit:
        with open(DATA, "ab", buffering=0) as f:
            f.write(b"x" * (4 << 20))
    elif kind == "late" and n == 200:
        os.sched_setaffinity(0, {1})
    elif kind == "full" and hit and n == 200:
        f = open(place + "/checkpoint", "wb")
        f.write(b"x" * (39 << 20)); f.flush()
    elif kind == "inodes" and hit and n == 200:
        for i in range(99):
            open(place + f"/{i}", "w").close()
    time.sleep(0.002 if kind in ("hog", "limit", "crowd", "late") else 0.02)
"""

# Fills the memory of a control group by programs that it starts, before there is a rank.
LAUNCHER = r"""
import subprocess, sys, time
open(sys.argv[1] + "/tasks", "w").write("0")
side = "import time; time.sleep({}); held = [b'x' * (1 << 20) for n in range(65)]; time.sleep(60)"
beside = [subprocess.Popen([sys.executable, "-c", side.format(4 + n)]) for n in range(3)]
held = []
while True:
    time.sleep(0.02)
    if len(held) < 110:
        held.append(b"y" * (1 << 20))
"""

# Keeps a CPU busy, as a program whose name does not look like the ranks'.
HOG = r"""
import os, sys, ctypes
ctypes.CDLL(None).prctl(15, b"stress-ng-cpu", 0, 0, 0)
os.sched_setaffinity(0, {int(sys.argv[1])})
while True:
    pass
"""
# Many processes that each live for milliseconds.
STORM = r"""
import os, subprocess, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
while True:
    subprocess.run(["sh", "-c", "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done"])
"""
SLOW_FS = r"""
import sys, time, threading
import fusepy as fuse
sys.path.insert(0, sys.argv[4])
import stalling_fs
class Slow(stalling_fs.StallingFs):
    def __call__(self, op, *args):
        if op in ("read", "write", "fsync"):
            time.sleep(float(sys.argv[3]))
        return super().__call__(op, *args)
fuse.FUSE(Slow(sys.argv[1], sys.argv[1] + ".stall"), sys.argv[2], foreground=True, nothreads=False, direct_io=True)
"""


def run_quietly(*command):
    return subprocess.run(command, capture_output=True, text=True)


class Cannot(Exception):
    """The machine does not allow this fault."""


@contextlib.contextmanager
def program(text, *args, python=sys.executable):
    p = subprocess.Popen([python, "-c", text, *map(str, args)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         start_new_session=True)
    try:
        yield p
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGKILL)
        p.wait()


@contextlib.contextmanager
def tmpfs(work, options):
    where = work / "ckpt"
    where.mkdir()
    if run_quietly("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(where)).returncode != 0:
        raise Cannot("no tmpfs can be mounted")
    try:
        yield where
    finally:
        run_quietly("umount", "-l", str(where))


@contextlib.contextmanager
def fuse(work, delay):
    if not os.path.exists("/dev/fuse") or run_quietly(SYSTEM_PYTHON, "-c", "import fusepy").returncode != 0:
        raise Cannot("no FUSE, or no python3-fusepy")
    root, where = work / "root", work / "data"
    root.mkdir()
    where.mkdir()
    (root / "data").write_bytes(b"x" * 4096)
    support = HERE.parent / "tests" / "support"
    with program(SLOW_FS, root, where, delay, support, python=SYSTEM_PYTHON) as server:
        for _ in range(100):
            if os.path.ismount(where):
                break
            time.sleep(0.05)
        else:
            raise Cannot("FUSE cannot be mounted here")
        try:
            yield where, root, server
        finally:
            pathlib.Path(f"{root}.stall").unlink(missing_ok=True)
            run_quietly("umount", "-l", str(where))


@contextlib.contextmanager
def cpu_limit():
    where = pathlib.Path("/sys/fs/cgroup/cpu/xpurun-faults")
    try:
        where.mkdir()
        (where / "cpu.cfs_quota_us").write_text("8000")
    except OSError:
        raise Cannot("cgroups are not writable (version 1)") from None
    try:
        yield where
    finally:
        for pid in (where / "tasks").read_text().split():
            with contextlib.suppress(OSError):
                pathlib.Path("/sys/fs/cgroup/cpu/tasks").write_text(pid)
        with contextlib.suppress(OSError):
            where.rmdir()


# Fills the memory of the control group that it is put into.
HOARD = r"""
import sys, time
keep = []
time.sleep(7)
while len(keep) < 320:
    keep.append(b"x" * (1 << 20))
    time.sleep(0.02)
time.sleep(60)
"""


@contextlib.contextmanager
def control_group(controller, *settings):
    """A group of version 1 with these (file, value)."""
    root = pathlib.Path("/sys/fs/cgroup") / controller
    where = root / "xpurun-faults"
    try:
        where.mkdir()
        for name, value in settings:
            (where / name).write_text(str(value))
    except OSError:
        raise Cannot("cgroups are not writable (version 1)") from None
    try:
        yield where
    finally:
        if (where / "freezer.state").exists():
            (where / "freezer.state").write_text("THAWED")
        for pid in (where / "tasks").read_text().split():
            with contextlib.suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)
        for _ in range(50):
            with contextlib.suppress(OSError):
                where.rmdir()
                break
            time.sleep(0.1)


class Run:
    """One job of two ranks; what its run directory says. `after` is called 4 s after the begin, `each` every second
    with the seconds since then."""

    def __init__(self, xpurun, work, kind, place="", cpus="", env=None, after=None, hang_timeout=600, job=None,
                 inside=(), each=None):
        self.xpurun, self.dir = xpurun, work / "run"
        script = work / "rank.py"
        script.write_text(f"SECONDS = {SECONDS}\nDATA = {str(work / 'big')!r}\n" + RANK)
        job = job or " ".join(f"RANK={r} LOCAL_RANK={r} WORLD_SIZE=2 {sys.executable} {script} &"
                              for r in (0, 1)) + " wait"
        command = [*inside, xpurun, "--out", self.dir, "--hang-timeout", hang_timeout, "--", "bash", "-c", job]
        p = subprocess.Popen(list(map(str, command)), start_new_session=True, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL,
                             env={**os.environ, "KIND": kind, "PLACE": str(place), "CPUS": cpus, **(env or {})})
        ended = threading.Event()
        if each is not None:
            threading.Thread(target=each, args=(time.monotonic(), ended), daemon=True).start()
        try:
            if after is not None:
                time.sleep(4)
                after()
            p.wait(timeout=SECONDS * 4)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
        ended.set()
        run_quietly(xpurun, "report", str(self.dir))
        self.sentence = json.loads((self.dir / "verdict.json").read_text())["sentence"]
        self.findings = json.loads((self.dir / "report.json").read_text())["findings"]

    def machine(self):
        return [f for f in self.findings if f["id"].startswith(("machine.", "cpu."))]

    def query(self, sql):
        out = run_quietly(self.xpurun, "query", "--format", "json", sql, str(self.dir))
        return [json.loads(line) for line in out.stdout.splitlines()]

    def says(self, finding, *words):
        """Of the findings with this id: (there is one, all words are in its text)."""
        texts = [f["title"] + " " + " ".join(f["evidence"]) for f in self.machine() if f["id"] == finding]
        return bool(texts), any(all(w in t for w in words) for t in texts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("xpurun")
    parser.add_argument("--only", default="")
    parser.add_argument("--healthy", type=int, default=20)
    parser.add_argument("--part", choices=("alone", "calm", "all"), default="all",
                        help="those that take CPUs or memory, those that do not")
    args = parser.parse_args()
    xpurun = os.path.abspath(args.xpurun)

    def hog(work):
        with program(HOG, 1):
            run = Run(xpurun, work, "hog", cpus="0,1")
            return run, run.says("machine.no_cpu", "rank 1", "stress-ng-cpu")

    def storm(work):
        with program(STORM, 1):
            run = Run(xpurun, work, "hog", cpus="0,1")
            return run, run.says("machine.no_cpu", "rank 1", "sh (")

    def limit(work):
        with cpu_limit() as group:
            run = Run(xpurun, work, "limit", place=group)
            return run, run.says("machine.throttled", "rank 1")

    def crowd(work):
        run = Run(xpurun, work, "hog", env={"OMP_NUM_THREADS": "8"})
        return run, run.says("cpu.omp_threads", "16")

    def shared(work):
        run = Run(xpurun, work, "hog", cpus="1,1")
        found = run.says("cpu.shared_core", "ranks 0-1", "number 1")
        rows = run.query("SELECT rank, relation, owner FROM intruders WHERE relation = 'other_rank'")
        return run, (found[0], found[1] and {(r["rank"], r["owner"]) for r in rows} == {(0, 1), (1, 0)})

    def faults(work):
        (work / "big").write_bytes(os.urandom(64 << 20))
        os.sync()
        run = Run(xpurun, work, "faults", place=work)
        rows = run.query("SELECT rank, last - first AS faults FROM machine WHERE fact = 'rank_page_faults'")
        faults = {r["rank"]: r["faults"] for r in rows}
        return run, (faults.get(1, 0) > 1000, faults.get(0, 0) < 50)

    def slow_read(work):
        with fuse(work, 0.3) as (where, _, _):
            run = Run(xpurun, work, "read", place=where)
            return run, run.says("machine.storage_wait", "rank 1", "read() of", str(where), "fuse")

    def slow_checkpoint(work):
        with fuse(work, 0.3) as (where, _, _):
            run = Run(xpurun, work, "write", place=where)
            return run, run.says("machine.storage_wait", "rank 1", "/checkpoint", str(where), "fuse")

    def dead(work):
        with fuse(work, 0) as (where, root, _):
            def stall():
                pathlib.Path(f"{root}.stall").touch()

                def later():
                    pathlib.Path(f"{root}.stall").unlink(missing_ok=True)
                threading.Timer(SECONDS - 4, later).start()
            run = Run(xpurun, work, "read", place=where, after=stall)
            return run, run.says("machine.storage_wait", "rank 1", str(where), "fuse")

    def full(work):
        with tmpfs(work, "size=40m") as where:
            run = Run(xpurun, work, "full", place=where, env={"TMPDIR": str(where)})
            return run, run.says("machine.space", str(where))

    def inodes(work):
        with tmpfs(work, "size=40m,nr_inodes=102") as where:
            run = Run(xpurun, work, "inodes", place=where, env={"TMPDIR": str(where)})
            return run, run.says("machine.inodes", str(where))

    def filled(work, kind, mib, *words):
        with control_group("memory", ("memory.limit_in_bytes", mib << 20)) as group:
            run = Run(xpurun, work, kind, place=group)
            return run, ("killed it at the memory limit" in run.sentence, all(w in run.sentence for w in words))

    def hoard(work):
        with control_group("memory", ("memory.limit_in_bytes", 300 << 20)) as group, program(HOARD) as other:
            (group / "tasks").write_text(str(other.pid))
            run = Run(xpurun, work, "memory", place=group)
            return run, run.says("machine.oom_kills", f"(pid {other.pid})", "rank 1")

    def segment(work):
        return filled(work, "segment", 300, "/memfd:batches", "of rank 1")

    def private_map(work):
        (work / "big").write_bytes(b"x" * (400 << 20))
        return filled(work, "map", 300, "of rank 1 were changed pages of", "/big")

    def copies(work):
        return filled(work, "copies", 260, "were copies of pages that rank 1 shares with 3 processes")

    def thrash(work):
        with open(work / "big", "wb") as f:
            f.write(os.urandom(160 << 20))
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # else the pages count elsewhere
        with control_group("memory", ("memory.limit_in_bytes", 48 << 20)) as group:
            run = Run(xpurun, work, "thrash", place=group)
            rows = run.query("SELECT rank, object, last - first AS n, fact FROM machine WHERE fact IN "
                             "('rank_page_faults', 'memory_limit') AND times > 0")
            return run, (any(r["fact"] == "memory_limit" and r["object"].endswith("/xpurun-faults") for r in rows),
                         {r["rank"] for r in rows if r["fact"] == "rank_page_faults"} >= {1})

    def frozen(work):
        with control_group("freezer") as group:
            def freeze():
                pids = subprocess.run(["pgrep", "-f", str(work / "rank.py")], capture_output=True, text=True).stdout
                for pid in pids.split():
                    env = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                    if b"RANK=1" in env and b"LOCAL_RANK=1" in env:
                        (group / "cgroup.procs").write_text(pid)
                (group / "freezer.state").write_text("FROZEN")
                threading.Timer(SECONDS + 16, lambda: (group / "freezer.state").write_text("THAWED")).start()
            run = Run(xpurun, work, "healthy", after=freeze, hang_timeout=8)
            text = " ".join(line for f in run.findings for line in f["evidence"])
            return run, ("frozen with control group" in text, "rank 1 has been frozen with control group "
                         "/xpurun-faults" in text)

    def cache(work):
        with control_group("memory", ("memory.limit_in_bytes", 100 << 20)) as group:
            run = Run(xpurun, work, "cache", place=group)
            rows = run.query("SELECT rank, object, fact, last FROM machine WHERE fact IN ('rank_written', "
                             "'memory_limit')")
            written = {r["rank"]: r["last"] for r in rows if r["fact"] == "rank_written"}
            return run, (any(r["fact"] == "memory_limit" and r["object"].endswith("/xpurun-faults") for r in rows),
                         written.get(1, 0) > 10 * max(written.get(0, 0), 1 << 20) and "ended" not in run.sentence)

    def loaders(work):
        with control_group("memory", ("memory.limit_in_bytes", 330 << 20)) as group:
            run = Run(xpurun, work, "loaders", place=group)
            return run, ("killed it at the memory limit" in run.sentence,
                         "were copies of pages that ranks 0-1 share with" in run.sentence)

    def launcher(work):
        with control_group("memory", ("memory.limit_in_bytes", 300 << 20)) as group:
            script = work / "launcher.py"
            script.write_text(LAUNCHER)
            run = Run(xpurun, work, "healthy", job=f"exec {sys.executable} {script} {group}")
            return run, ("killed it at the memory limit" in run.sentence,
                         all(w in run.sentence for w in ("processes that rank 0 has started held",
                                                         "of the 300 MiB of control group")))

    def late(work):
        run = Run(xpurun, work, "late", cpus="0,1")
        return run, run.says("cpu.shared_core", "ranks 0-1", "number 1")

    def on_host(change, env, finding, words):
        def case(work):
            if not machine_fakes.can_fake():
                raise Cannot("no mount namespaces")
            host = machine_fakes.FakeHost(work)
            change(host, 0)
            run = Run(xpurun, work, "healthy", env=env, inside=host.command(),
                      each=lambda begin, ended: machine_fakes.keep_changing(change, host, begin, ended))
            return run, run.says(finding, *words)
        return case

    def on_gpu(lines, finding, words):
        def case(work):
            if not machine_fakes.can_fake():
                raise Cannot("no mount namespaces")
            host = machine_fakes.FakeHost(work)
            machine_fakes.add_gpus(host)
            state, build = work / "state", pathlib.Path(xpurun).parents[1]
            healthy = "0 gpus 2\n1 rows_corrected 5\n"
            state.write_text(healthy)
            run = Run(xpurun, work, "", env=machine_fakes.gpu_environment(build, state), inside=host.command(),
                      job=machine_fakes.gpu_job(build, SECONDS), after=lambda: state.write_text(f"{healthy}{lines}\n"))
            return run, run.says(finding, *words)
        return case

    cases = [("another program on the CPU of rank 1", hog), ("many short processes on the CPU of rank 1", storm),
             ("CPU limit of rank 1's cgroup", limit), ("more OpenMP threads than CPUs", crowd),
             ("two ranks pinned to one CPU", shared), ("major page faults in rank 1", faults),
             ("slow FUSE below the data of rank 1", slow_read), ("slow FUSE below its checkpoints", slow_checkpoint),
             ("dead FUSE server", dead), ("full file system", full), ("no inodes left", inodes),
             ("a process that is no rank fills the memory", hoard), ("shared memory of rank 1 fills it", segment),
             ("changed pages of a private map fill it", private_map), ("copies on write fill it", copies),
             ("rank 1 reads at its memory limit", thrash), ("rank 1 in a frozen control group", frozen),
             ("files that rank 1 writes fill the page cache", cache), ("copies in the loaders of both ranks", loaders),
             ("the launcher is killed at the limit", launcher), ("both ranks pinned to one CPU later", late)]
    calm = [(name, on_host(*rest)) for name, *rest in machine_fakes.HOST_FAULTS]
    calm += [(name, on_gpu(*rest)) for name, *rest in machine_fakes.GPU_FAULTS]
    print(f"{'fault':45} {'cause':6} {'object and rank':16} other findings")

    def judge(one):
        name, case = one
        with tempfile.TemporaryDirectory() as work:
            try:
                run, (cause, thing) = case(pathlib.Path(work))
            except Cannot as e:
                print(f"{name:45} not possible here: {e}", flush=True)
                return None
            other = ", ".join(sorted({f["id"] for f in run.machine()}))
            print(f"{name:45} {'yes' if cause else 'NO':6} {'yes' if thing else 'NO':16} {other}", flush=True)
            if not (cause and thing) and os.environ.get("KEEP"):
                kept = pathlib.Path(os.environ["KEEP"]) / name.replace(" ", "_").replace("'", "")
                shutil.copytree(run.dir, kept, dirs_exist_ok=True)
            return bool(cause and thing)

    def healthy(number):
        with tempfile.TemporaryDirectory() as work:
            run = Run(xpurun, pathlib.Path(work), "healthy")
            for f in run.machine():
                print(f"healthy run {number}: {f['id']}: {f['title']}", flush=True)
            return len(run.machine())

    # What takes CPUs or memory runs alone.
    cases, calm = (cases if args.part != "calm" else []), (calm if args.part != "alone" else [])
    results = [judge(one) for one in cases if args.only in one[0]]
    with concurrent.futures.ThreadPoolExecutor(CALM_AT_ONCE) as pool:
        results += pool.map(judge, [one for one in calm if args.only in one[0]])
        tried, right = sum(r is not None for r in results), sum(r is True for r in results)
        print(f"{right} of {tried} right", flush=True)
        false = sum(pool.map(healthy, range(args.healthy)))
    print(f"{args.healthy} healthy runs: {false} findings")
    return 0 if right == tried and false == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
