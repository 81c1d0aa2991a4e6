"""Makes synthetic run directories as a supervisor would write them, for any number of ranks.

usage: make_run.py DIR [--ranks 4] [--threads 3] [--culprit 2] [--hostile] [--earlier] [--source] [--calls STEPS]
                   [--pipeline STEPS] [--reads PATH] [--lock PATH] [--kind hang|exception|crash|finished|running]
"""

import argparse
import json
import pathlib

import make_events
import stack_files

HOSTILE = "</title></script><script>alert(1)</script>&\"';\n\u2028\x01 ]]>"
TRAIN = "/home/user/project/train.py"
TORCH = "/usr/lib/python3/dist-packages/torch"


def py(func, file, line, **more):
    return {"kind": "python", "func": func, "file": file, "line": line, **more}


def native(func, module, **more):
    return {"kind": "native", "func": func, "module": module, "pc": "0x7f0000001000", "offset": "0x1000", **more}


EVAL = native("_PyEval_EvalFrameDefault", "python3.11", eval=True)
START = [native("Py_BytesMain", "python3.11"), native("__libc_start_main", "libc.so.6"), native("_start", "python3.11")]


def culprit_frames():
    return [
        native("clock_nanosleep", "libc.so.6"),
        native("pysleep", "python3.11"),
        native("time_sleep", "python3.11"),
        py("load_batch", TRAIN, 31, callee="time.sleep"),
        py("train", TRAIN, 40),
        py("main", TRAIN, 52),
        py("<module>", TRAIN, 60),
        EVAL,
    ] + START


def lock_frames():
    return [native("flock", "libc.so.6"), py("prepare", TRAIN, 8, callee="fcntl.flock"), py("train", TRAIN, 38),
            py("main", TRAIN, 52), py("<module>", TRAIN, 60), EVAL] + START


def waiting_frames():
    return ([native("__futex_abstimed_wait_common", "libc.so.6"), native("pthread_cond_wait", "libc.so.6"),
             native("gloo::transport::tcp::UnboundBuffer::waitRecv", "libtorch_cpu.so"),
             native("c10d::ProcessGroupGloo::AsyncWork::wait", "libtorch_cpu.so"),
             native("cfunction_call", "python3.11"),
             py("all_reduce", TORCH + "/distributed/distributed_c10d.py", 2501, callee="work.wait"),
             py("wrapper", TORCH + "/distributed/c10d_logger.py", 83), py("train", TRAIN, 44), py("main", TRAIN, 52),
             py("<module>", TRAIN, 60), EVAL] + START)


def other_thread(i, tid):
    kinds = [
        (
            "pt_autograd_%d" % i,
            [
                native("pthread_cond_wait", "libc.so.6"),
                native("torch::autograd::ReadyQueue::pop", "libtorch_cpu.so"),
                native("torch::autograd::Engine::thread_main", "libtorch_cpu.so"),
                native("clone", "libc.so.6"),
            ],
        ),
        (
            "gloo_%d" % i,
            [
                native("epoll_wait", "libc.so.6"),
                native("gloo::transport::tcp::Loop::run", "libtorch_cpu.so"),
                native("clone", "libc.so.6"),
            ],
        ),
        (
            "python",
            [
                native("poll", "libc.so.6"),
                py("wait", "/usr/lib/python3.11/threading.py", 324),
                py("watch", TRAIN, 12),
                native("clone", "libc.so.6"),
            ],
        ),
    ]
    name, frames = kinds[i % 3]
    thread = {"tid": tid, "comm": name[:15], "state": "S", "main": False, "cpu_ms": i, "frames": frames}
    if name == "python":
        thread["python_name"] = "Thread-%d (watch)" % i
    return thread


def stacks(rank, options):
    bad = rank == options.culprit
    pid = 4709 + rank
    threads = [{"tid": pid, "comm": "python3", "state": "S", "main": True, "cpu_ms": 812,
                "frames": culprit_frames() if bad else waiting_frames(), **({"gil": "dropping"} if bad else {})}]
    if options.reads and bad:
        threads[0]["frames"][3]["callee"] = "open"
        threads[0]["target"] = options.reads
    if options.lock and not bad:
        threads[0].update(frames=lock_frames(), lock={"kind": "flock", "path": options.lock,
                                                      "pids": [4709 + options.culprit]})
    if options.lock and bad:
        threads[0].update(frames=waiting_frames(), gil="")
    threads += [other_thread(i, pid + 1000 + i) for i in range(options.threads - 1)]
    if options.hostile and bad:
        threads[0]["frames"].insert(0, native(HOSTILE, "lib<x>.so"))
        threads.append({"tid": 1, "comm": HOSTILE, "state": "D", "main": False, "frames": [py(HOSTILE, HOSTILE, 1)]})
    return {"schema": "xpurun.stacks/1", "host": "a", "pid": pid, "rank": rank, "local_rank": rank, "role": "rank",
            "comm": "python3", "cmdline": ["python3", "train.py"], "python_version": "3.11.2",
            "wall_ns": 1795230915000000000, "mono_ns": 5, "pause_ns": 812345 + 1000 * rank, "method": "ptrace",
            "status": "ok", "threads": threads}


def worker(rank, n):
    return {"schema": "xpurun.stacks/1", "host": "a", "pid": 6000 + 10 * rank + n, "rank": rank, "role": "worker",
            "comm": "pt_data_worker", "status": "ok", "pause_ns": 400000, "method": "ptrace", "threads": [
                {"tid": 6000 + 10 * rank + n, "comm": "pt_data_worker", "state": "S", "main": True, "frames": [
                    native("poll", "libc.so.6"), py("get", "/usr/lib/python3.11/multiprocessing/queues.py", 113),
                    py("_worker_loop", TORCH + "/utils/data/_utils/worker.py", 275), py("<module>", TRAIN, 60)]}]}


def agent():
    return {
        "schema": "xpurun.stacks/1",
        "host": "a",
        "pid": 4700,
        "rank": None,
        "role": "agent",
        "comm": "torchrun",
        "status": "partial",
        "reason": "one thread ended while it was read",
        "pause_ns": 300000,
        "method": "ptrace",
        "threads": [
            {
                "tid": 4700,
                "comm": "torchrun",
                "state": "S",
                "main": True,
                "frames": [
                    native("clock_nanosleep", "libc.so.6"),
                    py("_invoke_run", TORCH + "/distributed/elastic/agent/server/api.py", 850),
                    py("main", TORCH + "/distributed/run.py", 806),
                    py("<module>", "/usr/bin/torchrun", 8),
                ],
            }
        ],
    }


def dump_manifest(options, files):
    processes = [
        {
            "pid": p["pid"],
            "rank": p["rank"],
            "role": p["role"],
            "status": p["status"],
            "reason": p.get("reason", ""),
            "pause_ns": p["pause_ns"],
            "file": name,
        }
        for name, p in files.items()
    ]
    ranks = [{"rank": r, "pid": 4709 + r, "host": "a", "alive": True, "state": "S", "has_python": True, "still_s": 10.2,
              "window_s": 5, "cpu_share": 0.01, "main_cpu_share": 0.0,
              "function": "load_batch" if r == options.culprit else "all_reduce",
              "file": TRAIN if r == options.culprit else TORCH + "/distributed/distributed_c10d.py",
              "line": 31 if r == options.culprit else 2501} for r in range(options.ranks)]
    return {"schema": "xpurun.dump/1", "n": 1, "why": "hang", "host": "a", "wall_ns": 1795230915000000000, "at_s": 42.1,
            "hang_timeout_s": 10, "spread_ns": 3400000, "trigger_rank": options.culprit, "processes": processes,
            "ranks": ranks}


def run_manifest(options):
    value = HOSTILE if options.hostile else "info"
    return {
        "schema": "xpurun.run/1",
        "version": "0.1.0",
        "id": "20261121T021500Z-train-1a2b",
        "host": "a",
        "started_wall_ns": 1795230873000000000,
        "elapsed_s": 47.3,
        "command": ["torchrun", "--nproc-per-node=4", "train.py"],
        "cwd": "/home/user/project",
        "env": {"API_TOKEN": "hunter2", "NCCL_TOKEN": "hunter2", "NCCL_DEBUG": value, "PATH": "/usr/bin:/bin"},
        "supervisor_pid": 4600,
        "main_pid": 4700,
        "hang_timeout_s": 10,
        "preload_path": "/opt/xpurun/lib/libxpurun_preload.so",
        "world_size": options.ranks,
        "outcome": "hang",
        "child_status": 15,
        "exit_status": 124,
        "processes": [
            {
                "pid": 4709 + r,
                "ppid": 4700,
                "role": "rank",
                "rank": r,
                "local_rank": r,
                "identity": "torchrun",
                "comm": "python3",
                "cmdline": ["python3", "train.py"],
                "python": True,
                "seen_s": 2.0,
                "last_progress_s": 31.9,
            }
            for r in range(options.ranks)
        ],
        "stalls": [
            {
                "n": 1,
                "at_s": 42.1,
                "cleared_s": -1,
                "dump": "dumps/1-hang",
                "verdict": {"schema": "xpurun.verdict/1", "kind": "hang", "sentence": "hang: one stalled"},
            }
        ],
        "dumps": [{"n": 1, "why": "hang", "dir": "dumps/1-hang", "at_s": 42.1}],
    }


def source():
    """Lines of the run, as its report has kept them."""
    text = ["def load_batch(i):", "    path = paths[i]", "    time.sleep(3600)", "    return read(path)"]
    return {
        "schema": "xpurun.source/1",
        "files": [
            {
                "file": TRAIN,
                "changed": False,
                "lines": [{"number": 29 + i, "text": line} for i, line in enumerate(text)]
                + [
                    {"number": 40, "text": "        batch = load_batch(i)"},
                    {"number": 44, "text": "        all_reduce(x)"},
                ],
            }
        ],
    }


def raised(options):
    """run.json of a run that an exception of the culprit ended; there is no dump."""
    pid = 4709 + options.culprit
    run = run_manifest(options)
    run.update(outcome="exit", child_status=256, exit_status=1, stalls=[], dumps=[])
    for i, process in enumerate(run["processes"]):
        culprit = process["rank"] == options.culprit
        process["death"] = {"happened": True, "order": 1 if culprit else i + 2, "at_s": 40.5 if culprit else 41.5,
                            "wait_status": 256 if culprit else 15, "follower": not culprit,
                            "cause_hint": "" if culprit else "ended by the launcher"}
    frames = [("<module>", 60), ("main", 52), ("train", 40), ("load_batch", 31)]
    run["exceptions"] = [{
        "kind": "raised", "pid": pid, "tid": pid, "rank": options.culprit, "thread": "MainThread", "at_s": 40.1,
        "wall_ns": 1795230913000000000, "code": -1,
        "chain": [{"relation": "", "type": "KeyError", "message": "'label'", "left_out": 0,
                   "frames": [{"file": TRAIN, "line": line, "function": f, "source": "x"} for f, line in frames]}]}]
    return run


def crashed(options):
    """run.json of a run in which the culprit died of SIGSEGV; the end of its log is kept, there is no dump."""
    pid = 4709 + options.culprit
    run = raised(options)
    run["exceptions"] = []
    run["processes"][options.culprit]["death"]["wait_status"] = 11
    run["crashes"] = [{"pid": pid, "tid": pid, "rank": options.culprit, "signal": 11, "code": 1, "address": "0x0",
                       "sender": 0, "at_s": 40.2, "dump": ""}]
    return run


def ended_well(options):
    run = run_manifest(options)
    run.update(outcome="exit", child_status=0, exit_status=0, stalls=[], dumps=[])
    for i, process in enumerate(run["processes"]):
        process["death"] = {"happened": True, "order": i + 1, "at_s": 46.5, "wait_status": 0, "cause_hint": "",
                            "follower": False}
    return run


def put_calls(path, options):
    """Event files of `options.calls` steps, on two hosts whose clocks differ."""
    events = [make_events.training_events(options.calls, late_ns=n) for n in (0, 1000)]
    for rank in range(options.ranks):
        make_events.write_rank(path / "ranks" / str(rank) / "events-1.xev", rank, options.ranks, events[rank % 2],
                               hosts=2, clock_error_ns=50_000_000)


def make(path, options):
    if options.calls:
        put_calls(path, options)
    for rank in range(options.ranks if options.pipeline else 0):
        file = path / "ranks" / str(rank) / "spans-1.xsp"
        make_events.write_pipeline(file, rank, options.ranks, options.pipeline)
    if options.source:
        path.mkdir(parents=True, exist_ok=True)
        (path / "source.json").write_text(json.dumps(source()))
    if options.kind == "crash":
        log = path / "ranks" / str(options.culprit) / "stderr.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("loading shard 17\nassertion failed: offset < size & <limit>\n")
    endings = {"exception": raised, "crash": crashed, "finished": ended_well}
    if options.kind in endings:
        path.mkdir(parents=True, exist_ok=True)
        (path / "run.json").write_text(json.dumps(endings[options.kind](options)))
        return
    dump = path / "dumps" / "1-hang"
    dump.mkdir(parents=True, exist_ok=True)
    files = {f"rank-{r}.stacks.json": stacks(r, options) for r in range(options.ranks)}
    for r in range(min(options.ranks, 4)):
        p = worker(r, 0)
        files[f"a-{p['pid']}.stacks.json"] = p
    files["a-4700.stacks.json"] = agent()
    for name, content in files.items():
        (dump / name).write_text(json.dumps(stack_files.compact(content)))
    (dump / "dump.json").write_text(json.dumps(dump_manifest(options, files)))
    if options.earlier:
        # An earlier dump on request, when every rank was in the collective.
        before = path / "dumps" / "0-request"
        before.mkdir(exist_ok=True)
        calm = argparse.Namespace(**{**vars(options), "culprit": -1, "hostile": False})
        for r in range(options.ranks):
            (before / f"rank-{r}.stacks.json").write_text(json.dumps(stack_files.compact(stacks(r, calm))))
    run = run_manifest(options)
    if options.kind == "running":
        run.update(outcome="running", child_status=-1, exit_status=-1, stalls=[])
    (path / "run.json").write_text(json.dumps(run))


def parse(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--culprit", type=int, default=2)
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("--earlier", action="store_true")
    parser.add_argument("--source", action="store_true")
    parser.add_argument("--calls", type=int, default=0)
    parser.add_argument("--reads", default="", metavar="PATH", help="the culprit's call opens this file")
    parser.add_argument("--lock", default="", metavar="PATH", help="the culprit holds this file's lock")
    parser.add_argument("--pipeline", type=int, default=0)
    parser.add_argument("--kind", choices=("hang", "exception", "crash", "finished", "running"), default="hang")
    return parser.parse_args(argv)


if __name__ == "__main__":
    given = parse()
    make(given.dir, given)
