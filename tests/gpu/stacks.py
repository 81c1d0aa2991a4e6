#!/usr/bin/env python3
"""Stacks of a real NCCL hang: pause, time and memory of dumps, and Python, native and GPU frames in one stack.

usage: tests/gpu/stacks.py XPURUN XPURUN_STACKDUMP OUT_DIR [DUMPS]

Starts tests/e2e/jobs/ddp_job.py on two GPUs without xpurun, lets rank 1 sleep, and dumps both ranks. Prints a table;
exits 1 if a dump fails, or if the waiting rank's stack has no GPU frame although cuda-gdb is installed.
"""

import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import stack_files  # noqa: E402

JOB = pathlib.Path(__file__).resolve().parents[1] / "e2e" / "jobs" / "ddp_job.py"


def start_hang():
    """The launcher, and the pids of rank 0 and 1."""
    job = subprocess.Popen([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
                            str(JOB), "--backend", "nccl", "--guilty", "1", "--fault", "sleep", "--at-step", "20",
                            "--steps", "1000000"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in job.stdout:
        if line.startswith("step 19 "):
            break
    time.sleep(5)
    ranks = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        found = [e for e in environ if e.startswith(b"RANK=")]
        if found and str(JOB).encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
            ranks[int(found[0][5:])] = pid
    return job, [ranks[0], ranks[1]]


def dump(helper, pid, out):
    """Pause and total time in ms, and the helper's peak memory in MiB."""
    begun = time.perf_counter()
    child = subprocess.Popen([helper, "--pid", str(pid), "--out", str(out)], stdout=subprocess.PIPE, text=True)
    said = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = status
    if status != 0 or "done ok" not in said:
        sys.exit(f"dump of {pid} failed: {said}")
    pause = int(re.search(r"^stopped \d+ (\d+)", said, re.M)[1]) / 1e6
    return pause, (time.perf_counter() - begun) * 1e3, usage.ru_maxrss / 1024


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def measure(helper, pid, rank, out, dumps):
    shutil.rmtree(pathlib.Path.home() / ".cache/xpurun", ignore_errors=True)
    path = out / f"rank{rank}.stacks.json"
    cold = dump(helper, pid, path)
    rows = [dump(helper, pid, path) for _ in range(dumps)]
    stacks = stack_files.read(path)
    kinds = [f["kind"] for t in stacks["threads"] for f in t["frames"]]
    maps = len(pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines())
    print(f"rank {rank}: {len(stacks['threads'])} threads, {kinds.count('native')} native and {kinds.count('python')} "
          f"Python frames, {maps} maps; {dumps} dumps: paused {spread([r[0] for r in rows])} ms, "
          f"in all {spread([r[1] for r in rows])} ms, empty symbol cache {cold[1]:.0f} ms, "
          f"memory {max(r[2] for r in rows + [cold]):.0f} MiB", flush=True)


def with_gpu(xpurun, pids, out):
    """The innermost frames of the waiting rank, or nothing."""
    begun = time.perf_counter()
    done = subprocess.run(
        [xpurun, "stacks", "--pid", f"{pids[0]},{pids[1]}", "--gpu-stacks", "auto", "--format", "json"],
        capture_output=True,
        text=True,
        timeout=200,
    )
    seconds = time.perf_counter() - begun
    (out / "gpu.json").write_text(done.stdout)
    print(done.stderr, end="")
    processes = json.loads(done.stdout)["processes"]
    print(f"with cuda-gdb: {seconds:.1f} s, status {done.returncode}")
    waiting = next(p for p in processes if p["pid"] == pids[0])
    for note in waiting.get("notes", []):
        print(f"  note: {note}")
    for thread in waiting["threads"]:
        if any(f["kind"] == "gpu" for f in thread["frames"]):
            kinds = {f["kind"] for f in thread["frames"]}
            for f in thread["frames"]:
                print(f"  {f['kind']:7} {f['func']} {f.get('file', f.get('module', ''))}:{f.get('line', 0)}")
            return kinds
    return set()


def main():
    xpurun, helper, out = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    dumps = int(sys.argv[4]) if len(sys.argv) > 4 else 30
    out.mkdir(parents=True, exist_ok=True)
    job, pids = start_hang()
    try:
        for rank, pid in enumerate(pids):
            measure(helper, pid, rank, out, dumps)
        kinds = with_gpu(xpurun, pids, out)
        alive = all(pathlib.Path(f"/proc/{pid}").exists() for pid in pids)
        print(f"kinds of frames in that stack: {', '.join(sorted(kinds)) or '-'}; ranks {'alive' if alive else 'DEAD'}")
        return 0 if alive and (kinds >= {"gpu", "native", "python"} or not shutil.which("cuda-gdb")) else 1
    finally:
        for pid in pids:
            os.kill(pid, 9)
        job.kill()


if __name__ == "__main__":
    sys.exit(main())
