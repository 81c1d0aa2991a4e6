"""Time, memory and sizes of a report over very many ranks.

usage: merge_scale.py XPURUN [--ranks 10000] [--threads 50] [--stacks 40] [--repeat 3] [--keep DIR] [--browser]

XPURUN is commands/xpurun in the build directory. Snapshots are generated first (not timed): every rank has its main
thread and THREADS-1 others of the roles that a PyTorch job has; main threads are at STACKS different positions, one of
them with a single rank. Addresses differ between ranks as they do with randomised layouts. Then `xpurun stacks DIR`
(merging and drawing alone) and `xpurun report DIR` (with diagnosis and page) are run REPEAT times each. --browser
also opens the page in headless Chromium and prints the time until the picture is drawn.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

from bench_support import compact_stacks

TRAIN = "/home/user/project/train.py"
BIAS = "0x7fba5e000000"
TORCH = "/usr/local/lib/python3.11/dist-packages/torch"


def py(func, file, line):
    return {"kind": "python", "func": func, "file": file, "line": line, "column": 9, "end_line": line, "end_column": 40}


def native(func, module, n, **more):
    # BIAS is replaced by the load bias of each process.
    return {
        "kind": "native",
        "func": func,
        "full_func": func + "(void*, unsigned long, c10::intrusive_ptr<c10::ivalue::Future> const&)",
        "module": module,
        "build_id": "0123456789abcdef0123456789abcdef01234567",
        "pc": f"{int(BIAS, 16) + n:#x}",
        "offset": f"0x{n:x}",
        **more,
    }


START = [native("_PyEval_EvalFrameDefault", "python3.11", 900, eval=True), native("Py_BytesMain", "python3.11", 901),
         native("__libc_start_main", "libc.so.6", 902), native("_start", "python3.11", 903)]


def main_frames(i):
    depth = 6 + i % 7
    return (
        [
            native("__futex_abstimed_wait_common", "libc.so.6", 1),
            native("pthread_cond_wait", "libc.so.6", 2),
            native(f"c10d::ProcessGroupNCCL::wait{i % 5}", "libtorch_cuda.so", 3),
            native("cfunction_call", "python3.11", 4),
            py("all_reduce", TORCH + "/distributed/distributed_c10d.py", 2501),
        ]
        + [py(f"layer_{i}_{k}.forward", f"/home/user/project/model_{i % 4}.py", 40 + 3 * k) for k in range(depth)]
        + [py("train_step", TRAIN, 100 + i), py("main", TRAIN, 52), py("<module>", TRAIN, 60)]
        + START
    )


OTHERS = [
    ("pt_autograd_%d", "ReadyQueue::pop", "libtorch_cpu.so"),
    ("pt_nccl_watchdg%d", "ProcessGroupNCCL::watchdogHandler", "libtorch_cuda.so"),
    ("pt_nccl_heartbt%d", "ProcessGroupNCCL::heartbeatMonitor", "libtorch_cuda.so"),
    ("cuda-EvtHandlr%d", "cuEventHandler", "libcuda.so.1"),
    ("OMP_worker%d", "gomp_barrier_wait", "libgomp.so.1"),
    ("gloo%d", "gloo::transport::tcp::Loop::run", "libtorch_cpu.so"),
]


def other_thread(i):
    name, func, module = OTHERS[i % len(OTHERS)]
    frames = (
        [native("syscall", "libc.so.6", 100 + i)]
        + [native(f"{func}_{k}", module, 200 + 10 * i + k) for k in range(4 + i % 5)]
        + [
            native("std::thread::_Impl<std::_Bind_simple<void (*)()>>::_M_run", "libstdc++.so.6", 300),
            native("start_thread", "libc.so.6", 301),
            native("clone3", "libc.so.6", 302),
        ]
    )
    return {"tid": 100000 + i, "comm": (name % i)[:15], "state": "S", "main": False, "cpu_ms": i, "frames": frames}


def process_text(frames, threads, wall_ns=1795230915000000000):
    """The stacks file of a process; capital letters are replaced in each rank's file."""
    main_thread = {"tid": "PID", "comm": "python3", "state": "S", "main": True, "cpu_ms": 812,
                   "frames": frames}
    return json.dumps(compact_stacks({
        "schema": "",
        "host": "HOST",
        "pid": "PID",
        "rank": "RANK",
        "local_rank": "LOCAL",
        "role": "rank",
        "comm": "python3",
        "cmdline": ["python3", "train.py"],
        "python_version": "3.11.2",
        "wall_ns": wall_ns,
        "mono_ns": 5,
        "pause_ns": "PAUSE",
        "method": "ptrace",
        "status": "ok",
        "threads": [main_thread, *(other_thread(i) for i in range(threads - 1))],
    }), separators=(",", ":"))


def text_of_rank(text, rank, pid, local_rank, host):
    for key, value in {"PID": pid, "RANK": rank, "LOCAL": local_rank, "PAUSE": 812345 + rank}.items():
        text = text.replace(f'"{key}"', str(value))
    return text.replace("HOST", host).replace(BIAS, f"0x7f{rank:05x}00000")


def generate(path, options):
    dump = path / "dumps" / "1-hang"
    dump.mkdir(parents=True)
    texts = [process_text(main_frames(i), options.threads) for i in range(options.stacks)]
    processes, ranks = [], []
    size = 0
    for r in range(options.ranks):
        # Stack 0 belongs to the culprit alone; the other ranks share the other stacks.
        stack = 0 if r == options.ranks // 3 else 1 + r % (options.stacks - 1)
        pid, host = 4000 + r % 8, f"node{r // 8:04d}"
        text = text_of_rank(texts[stack], r, pid, r % 8, host)
        (dump / f"rank-{r}.stacks.json").write_text(text)
        size += len(text)
        processes.append(
            {"pid": pid, "rank": r, "role": "rank", "status": "ok", "pause_ns": 812345, "file": f"rank-{r}.stacks.json"}
        )
        ranks.append(
            {
                "rank": r,
                "pid": pid,
                "host": host,
                "alive": True,
                "state": "S",
                "has_python": True,
                "still_s": 10.2,
                "window_s": 5,
                "function": "all_reduce",
                "file": TORCH + "/distributed/distributed_c10d.py",
                "line": 2501,
            }
        )
    (dump / "dump.json").write_text(json.dumps({
        "schema": "xpurun.dump/1", "n": 1, "why": "hang", "host": "node0000", "at_s": 42.1, "hang_timeout_s": 10,
        "spread_ns": 3400000, "processes": processes, "ranks": ranks}))
    (path / "run.json").write_text(
        json.dumps(
            {
                "schema": "xpurun.run/1",
                "version": "0.1.0",
                "id": "scale",
                "host": "node0000",
                "elapsed_s": 47.3,
                "command": ["torchrun", "train.py"],
                "hang_timeout_s": 10,
                "world_size": options.ranks,
                "outcome": "hang",
                "exit_status": 124,
                "dumps": [{"n": 1, "why": "hang", "dir": "dumps/1-hang", "at_s": 42.1}],
            }
        )
    )
    return size


def measure(command):
    """(seconds, peak MiB) of one command."""
    start = time.monotonic()
    out = subprocess.run(
        [
            "/usr/bin/env",
            "python3",
            "-c",
            (
                "import resource,subprocess,sys; r=subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL).returncode;"
                "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(r)"
            ),
            *map(str, command),
        ],
        stdout=subprocess.PIPE,
        check=True,
    )
    return time.monotonic() - start, int(out.stdout) / 1024


def times(what, command, repeat):
    runs = [measure(command) for _ in range(repeat)]
    seconds = sorted(r[0] for r in runs)
    print(f"{what}: median {statistics.median(seconds):.2f} s ({seconds[0]:.2f} to {seconds[-1]:.2f}), "
          f"largest resident size {max(r[1] for r in runs):.0f} MiB", flush=True)


def open_in_browser(page):
    import chromium  # pylint: disable=import-outside-toplevel
    usable = []
    with chromium.Browser() as browser:
        for _ in range(5):
            tab = browser.page()
            tab.open(page.resolve().as_uri())
            # Since navigation began: everything read, unpacked, drawn, and a frame shown.
            usable.append(
                tab.evaluate(
                    "xpurun.ready.then(() => new Promise(done => requestAnimationFrame(() => setTimeout(() =>"
                    " done(performance.now())))))"
                )
                / 1000
            )
            redraw = tab.evaluate(
                "(() => { const t = performance.now(); const e = document.getElementById('view').elements.diff;"
                " e.checked = true; e.dispatchEvent(new Event('input', {bubbles: true})); return performance.now() - t;"
                " })()"
            )
    print(
        f"page usable after: median {statistics.median(usable):.2f} s ({min(usable):.2f} to {max(usable):.2f}); another"
        f" view drawn in {redraw:.0f} ms"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("xpurun")
    parser.add_argument("--ranks", type=int, default=10000)
    parser.add_argument("--threads", type=int, default=50)
    parser.add_argument("--stacks", type=int, default=40)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--keep", type=pathlib.Path, help="generate here, or use what was generated here before")
    parser.add_argument("--browser", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temp:
        run = given.keep or pathlib.Path(temp) / "run"
        size = 0
        if not (run / "run.json").exists():
            size = generate(run, given)
        size = size or sum(f.stat().st_size for f in (run / "dumps").rglob("*.json"))
        print(
            f"{given.ranks} ranks, {given.threads} threads each, {given.stacks} places of main threads,"
            f" {size / 1e6:.0f} MB of snapshots",
            flush=True,
        )
        times(
            "xpurun stacks",
            [given.xpurun, "stacks", "--quiet", "--out", pathlib.Path(temp) / "stacks", run / "dumps"],
            given.repeat,
        )
        times("xpurun report", [given.xpurun, "report", "--quiet", run], given.repeat)
        print(
            f"page {(run / 'report.html').stat().st_size / 1e3:.0f} kB, merged.svg"
            f" {(run / 'stacks' / 'merged.svg').stat().st_size / 1e3:.0f} kB, report.json"
            f" {(run / 'report.json').stat().st_size / 1e3:.0f} kB"
        )
        if given.browser:
            open_in_browser(run / "report.html")


if __name__ == "__main__":
    main()
