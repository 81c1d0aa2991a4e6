#!/usr/bin/env python3
"""run_all.py XPURUN OUT [--only NAME,PATTERN*] [--skip NAMES] [--parallel N] [--seconds S] [--pairs K] [--no-analyze]

Runs the jobs of manifest.json under XPURUN, each on two GPUs, and writes OUT/summary.json (after each job again).
XPURUN is a command; "none" runs the jobs without a tool (to check the jobs themselves).
Bad jobs with "share" run up to N at a time on the same two GPUs; all others have their two GPUs for themselves.
"""

import argparse
import fnmatch
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
ap.add_argument("xpurun")
ap.add_argument("out")
ap.add_argument("--only", default="")
ap.add_argument("--skip", default="")
ap.add_argument("--parallel", type=int, default=1)
ap.add_argument("--pairs", type=int, default=0, help="use at most so many pairs of GPUs")
ap.add_argument("--seconds", type=float, default=1e9, help="start no job later than this")
ap.add_argument("--hang-timeout", default="20")
ap.add_argument("--manifest", default=os.path.join(HERE, "manifest.json"))
ap.add_argument("--xpurun-args", default="", help="more options of xpurun run, in one string")
ap.add_argument("--no-analyze", action="store_true")
args = ap.parse_args()
OUT = os.path.abspath(args.out)
os.makedirs(OUT, exist_ok=True)
START = time.monotonic()
XPURUN = (
    [] if args.xpurun == "none" else [os.path.abspath(args.xpurun) if os.path.exists(args.xpurun) else args.xpurun]
)
lock = threading.Lock()
results = {}
ports = set()


def gpus():
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if seen:
        return [g for g in seen.split(",") if g]
    try:
        text = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60).stdout
        return [str(i) for i in range(text.count("GPU "))]
    except (OSError, subprocess.TimeoutExpired):
        return []


def free_port():
    """below the range of ports that the kernel hands out by itself, so that nobody takes it in between"""
    with lock:
        for p in range(20000 + os.getpid() % 500 * 10, 32000):
            if p in ports:
                continue
            with socket.socket() as s:
                try:
                    s.bind(("0.0.0.0", p))
                except OSError:
                    continue
            ports.add(p)
            return p


def marked(mark):
    """pids of the processes that carry the job's mark in their environment"""
    found = []
    for p in os.listdir("/proc"):
        if p.isdigit() and int(p) != os.getpid():
            try:
                with open(f"/proc/{p}/environ", "rb") as f:
                    if mark in f.read():
                        found.append(int(p))
            except OSError:
                pass
    return found


def end_leftovers(mark):
    n = 0
    for _ in range(20):
        left = marked(mark)
        if not left:
            break
        n = max(n, len(left))
        for p in left:
            try:
                os.kill(p, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.2)
    return n


def load(path):
    try:
        with open(path) as f:
            return json.load(f)
    except (OSError, ValueError):
        return None


def tail(path, n=1500):
    try:
        with open(path, errors="replace") as f:
            return f.read()[-n:]
    except OSError:
        return ""


def expand(words, port, job_out):
    words = [w.replace("{dir}", HERE).replace("{port}", str(port)).replace("{out}", job_out) for w in words]
    if words[0] == "torchrun":
        beside = os.path.join(os.path.dirname(sys.executable), "torchrun")  # the one of this Python, not of another
        words = ([beside] if os.path.exists(beside) else [sys.executable, "-m", "torch.distributed.run"]) + words[1:]
    if words[0] == "python3":
        words[0] = sys.executable
    return words


def run(job, pair):
    name = job["name"]
    port, mark = free_port(), f"RUN_ALL_JOB={name}-{os.getpid()}"
    job_out, run_dir = os.path.join(OUT, name + ".job"), os.path.join(OUT, name)
    for d in (job_out, run_dir):
        shutil.rmtree(d, ignore_errors=True)
    os.makedirs(job_out)
    env = dict(
        os.environ,
        JOB_OUT=job_out,
        NCCL_NVLS_ENABLE="0",
        TORCH_SYMM_MEM_DISABLE_MULTICAST="1",
        NVSHMEM_DISABLE_NVLS="1",
        OMP_NUM_THREADS="4" if pair else "1",
        PYTHONDONTWRITEBYTECODE="1",
        TOKENIZERS_PARALLELISM="false",
        PYTHONUNBUFFERED="1",
        HF_HUB_OFFLINE="1",
        RUN_ALL_JOB=mark.split("=", 1)[1],
        PATH=os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", ""),
    )
    for k in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        env.pop(k, None)
    if pair:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(pair)
    env.update({k: v.replace("{port}", str(port)) for k, v in job["env"].items()})
    cmd = expand(job["cmd"], port, job_out)
    if XPURUN:
        own = job.get("xpurun_args", [])
        hang = [] if "--hang-timeout" in own else ["--hang-timeout", args.hang_timeout]
        cmd = (
            XPURUN
            + ["--out", run_dir]
            + hang
            + own
            + ["--on-hang", "kill"]
            + shlex.split(args.xpurun_args)
            + ["--"]
            + cmd
        )
    beside = None
    if job.get("beside"):
        benv = dict(env)
        if pair:
            benv["CUDA_VISIBLE_DEVICES"] = pair[job["beside"]["gpu"]]
        with open(os.path.join(OUT, name + ".beside.txt"), "w") as f:
            beside = subprocess.Popen(
                expand(job["beside"]["cmd"], port, job_out),
                env=benv,
                stdout=f,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
    log = os.path.join(OUT, name + ".txt")
    t = time.monotonic()
    timed_out = False
    with open(log, "w") as f:
        p = subprocess.Popen(
            cmd,
            env=env,
            cwd=job_out,
            stdout=f,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            rc = p.wait(job["timeout_s"])
        except subprocess.TimeoutExpired:
            timed_out = True
            p.send_signal(signal.SIGTERM)
            try:
                rc = p.wait(25)
            except subprocess.TimeoutExpired:
                p.kill()
                rc = p.wait()
    seconds = time.monotonic() - t
    if beside:
        beside.kill()
        beside.wait()
    left = end_leftovers(mark.encode())
    return dict(
        rc=rc,
        timed_out=timed_out,
        seconds=round(seconds, 1),
        leftovers=left,
        cmd=cmd,
        gpus=pair,
        run_dir=run_dir,
        job_out=job_out,
    )


def evaluate(job, r):
    """what the tool said, beside what is true"""
    name = job["name"]
    truth = load(os.path.join(r["job_out"], "steps.json"))
    if truth:
        truth.pop("windows", None)
        other = load(os.path.join(r["job_out"], "steps.rank1.json"))
        if other:
            truth["rank1"] = {k: other[k] for k in ("ms_before", "ms_during", "ms_after_spell", "steps")}
    verdict = load(os.path.join(r["run_dir"], "verdict.json"))
    said = json.dumps(verdict) if verdict else ""
    analysis = None
    if XPURUN and job["kind"] in ("slow", "healthy") and not args.no_analyze:
        for fmt, ext in (([], "txt"), (["--format", "json"], "json")):
            path = os.path.join(OUT, f"{name}.analyze.{ext}")
            try:
                with open(path, "w") as f:
                    subprocess.run(
                        XPURUN + ["analyze", *fmt, r["run_dir"]],
                        stdout=f,
                        stderr=subprocess.STDOUT,
                        stdin=subprocess.DEVNULL,
                        timeout=90,
                    )
            except (OSError, subprocess.TimeoutExpired):
                pass
        analysis = tail(os.path.join(OUT, f"{name}.analyze.txt"), 6000)
        said += analysis + tail(os.path.join(OUT, f"{name}.analyze.json"), 400000)
    since = job["since_step"]
    if since == "steps.json":
        since = truth.get("fault_step") if truth else None
    hit = {
        w: {"function": w.split(" (")[0] in said, "line": w.split("(")[1].rstrip(")") in said} for w in job["where"]
    }
    return {
        "name": name,
        "rc": r["rc"],
        "timed_out": r["timed_out"],
        "seconds": r["seconds"],
        "leftovers": r["leftovers"],
        "gpus": r["gpus"],
        "sentence": (verdict or {}).get("sentence"),
        "id": (verdict or {}).get("id"),
        "said_kind": (verdict or {}).get("kind"),
        "said_ranks": (verdict or {}).get("ranks"),
        "said_where": (verdict or {}).get("where"),
        "expected": {
            k: job.get(k)
            for k in ("kind", "kinds_ok", "ranks", "ranks_ok", "where", "stands", "why", "period", "spell")
        },
        "expected_since_step": since,
        "truth": truth,
        "mentioned": hit,
        "speed_sentence": (analysis or "").strip().split("\n")[0],
        "analysis": analysis,
        "verdict": verdict,
        "output_tail": tail(os.path.join(OUT, name + ".txt")),
        "cmd": r["cmd"],
    }


def write_summary():
    with lock:
        tmp = os.path.join(OUT, f".summary.{threading.get_ident()}")
        with open(tmp, "w") as f:
            json.dump([results[n] for n in results], f, indent=1)
        os.replace(tmp, os.path.join(OUT, "summary.json"))


def main():
    jobs = load(args.manifest)
    match = lambda n, pats: any(fnmatch.fnmatch(n, p) for p in pats.replace(" ", ",").split(",") if p)
    if args.only:
        jobs = [j for j in jobs if match(j["name"], args.only)]
    jobs = [j for j in jobs if not match(j["name"], args.skip)]
    cards = gpus()
    pairs = [cards[i : i + 2] for i in range(0, len(cards) - 1, 2)] or [[]]
    if args.pairs:
        pairs = pairs[: args.pairs]
    print(f"{len(jobs)} jobs on {len(pairs)} pair(s) of GPUs: {pairs}", flush=True)
    running = [[] for _ in pairs]  # jobs on each pair
    pending, threads, skipped = list(jobs), [], []
    done = threading.Condition()

    def work(k, job):
        r = None
        try:
            r = run(job, pairs[k])
        except Exception as e:
            results[job["name"]] = {"name": job["name"], "error": repr(e)}
        with done:
            running[k].remove(job)
            done.notify_all()
        if r:
            row = evaluate(job, r)
            results[job["name"]] = row
            print(
                f"[{time.monotonic() - START:5.0f} s] {job['name']}: rc {row['rc']}"
                f"{' TIMEOUT' if row['timed_out'] else ''} in {row['seconds']} s; "
                f"expected {job['kind']} {job['ranks']}; "
                f"{row['sentence']}{' | ' + row['speed_sentence'] if row['speed_sentence'] else ''}",
                flush=True,
            )
        write_summary()

    def next_for(k):
        here = running[k]
        if not here:
            return 0 if pending else None
        if all(j["share"] for j in here) and len(here) < args.parallel:
            for i, j in enumerate(pending):
                if j["share"]:
                    return i
        return None

    with done:
        while pending:
            if time.monotonic() - START > args.seconds:
                skipped, pending = [j["name"] for j in pending], []
                break
            started = False
            for k in range(len(pairs)):
                i = next_for(k)
                if i is not None:
                    job = pending.pop(i)
                    running[k].append(job)
                    t = threading.Thread(target=work, args=(k, job))
                    t.start()
                    threads.append(t)
                    started = True
            if not started:
                done.wait(1.0)
    for t in threads:
        t.join()
    for n in skipped:
        results[n] = {"name": n, "not_started": True}
    write_summary()
    if skipped:
        print("not started for lack of time:", " ".join(skipped))
    print("summary:", os.path.join(OUT, "summary.json"))


main()
