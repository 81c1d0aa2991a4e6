#!/usr/bin/env python3
"""The preload's timing on real GPUs: cost, accuracy, side effects. Needs two GPUs, or RANKS=1 in the environment and
one GPU, and a Python with torch and NCCL; takes about 17 minutes.

usage: tests/gpu/timing.py XPURUN OUT_DIR [PART...]

Each part has its own time limit. OUT_DIR/report.txt has the results of finished parts; their raw figures
(PART.RANK.json), output and run directory are in OUT_DIR/raw.tar.gz. Exits 1 if a promised figure is missed.
"""

import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
JOB = HERE / "timing_job.py"
SECONDS = float(os.environ.get("XPURUN_GPU_SECONDS", "1020"))
# Part: time limit in seconds, xpurun's options, environment.
PARTS = {
    "ab": (285, ("--timing", "light"), {}),
    "calls": (60, (), {}),
    "checks": (165, ("--timing", "full", "--overhead-budget", "100%"), {}),
    "gpu-time": (75, ("--timing", "full", "--overhead-budget", "100%"), {}),
    "gpu-time-raw": (75, ("--timing", "full", "--overhead-budget", "100%"), {"XPURUN_RUN_EVENT_CORRECTION": "0"}),
    "ab-shared-queue": (120, ("--timing", "light"), {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}),
    "ab-small": (125, ("--timing", "light"), {}),
    "ab-causes": (120, ("--timing", "light"), {}),
    "profiler": (100, ("--timing", "full", "--overhead-budget", "100%"), {}),
    "profiler-shared-queue": (
        70,
        ("--timing", "full", "--overhead-budget", "100%"),
        {"CUDA_DEVICE_MAX_CONNECTIONS": "1"},
    ),
}
# Seconds that a part needs besides its steps: start of torchrun, torch and NCCL, and the end.
START = 30
# Most overhead in percent, by variant.
PROMISED = {
    "ab ddp": {"light": 0.1, "full": 0.5},
    "ab fsdp": {"light": 0.1, "full": 0.5},
    "ab-small small": {"light": 1.0},
    "ab-shared-queue fsdp": {"light": 0.3},
    "profiler ddp": {"every collective": 0.3},
    "profiler-shared-queue fsdp": {"every collective": 0.5},
}
NOISE = 0.2  # percent: with more noise the result is inconclusive


class Report:
    def __init__(self, path):
        self.path, self.good = path, True

    def say(self, line):
        print(line, flush=True)
        with self.path.open("a") as file:
            file.write(line + "\n")

    def check(self, good, line):
        self.good = self.good and good
        self.say(f"  {'ok   ' if good else 'WRONG'} {line}")


def torchrun(arguments):
    return [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc_per_node",
        os.environ.get("RANKS", "2"),
        str(JOB),
        *arguments,
    ]


def execute(command, seconds, log, env):
    """Exit status; -1 at the time limit: a second SIGINT makes xpurun kill all its processes, in any session."""
    with log.open("w") as file:
        child = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=env, start_new_session=True)
        for patience, next_signal in ((seconds, signal.SIGINT), (4, signal.SIGINT), (8, signal.SIGKILL)):
            try:
                status = child.wait(patience)
                return status if patience == seconds else -1
            except subprocess.TimeoutExpired:
                child.send_signal(next_signal)
        child.wait()
        return -1


def spread(values):
    return f"{statistics.median(values):+.3f} ({min(values):+.3f} to {max(values):+.3f})"


def standard_error(values):
    """Standard error of the median, from the quartiles as for a normal distribution, so that outliers do not decide."""
    low, _, high = statistics.quantiles(values, n=4)
    return 1.2533 * (high - low) / 1.349 / len(values) ** 0.5


def percents(found, base, name):
    """For each round, the difference from the mean of the base's blocks."""
    off = [f["times"] for n, f in found.items() if n.startswith(base)]
    bases = [statistics.mean(times) for times in zip(*off)]
    return [(t / b - 1) * 100 for t, b in zip(found[name]["times"], bases)]


def compare(report, title, result):
    found, base, steps = result["variants"], result["base"], result["steps"]
    rounds = len(found[base]["times"])
    if rounds < 3:
        report.say(f"{title}: only {rounds} rounds")
        report.good = report.good and title not in PROMISED
        return
    report.say(
        f"{title}: step {statistics.median(found[base]['times']) * 1e3:.3f} ms when {base}; {rounds} rounds of {steps}"
        " steps"
    )
    medians = {}
    for name, f in found.items():
        if name == base:
            continue
        if name == f"{base} again":
            # Compared with the other base block, not with a mean that contains the block itself.
            over = [(a / b - 1) * 100 for a, b in zip(f["times"], found[base]["times"])]
        else:
            over = percents(found, base, name)
        medians[name] = (statistics.median(over), standard_error(over))
        each = {key: statistics.median(values) for key, values in f.items() if key not in ("times", "period")}
        paid = (each["own_ns"] + each["poller_cpu_ns"] + each["gpu_ns"]) / statistics.median(found[base]["times"]) / 1e7
        per_pair = each["event_host_ns"] / each["samples"] if each["samples"] else 0
        per_mark = each["mark_host_ns"] / each["marks"] if each["marks"] else 0
        counting = each["own_ns"] - each["event_host_ns"] - each["mark_host_ns"] - each["profiler_host_ns"]
        per_call = counting / each["calls"] if each["calls"] else 0
        report.say(
            f"  {name:30} {spread(over)} % standard error {medians[name][1]:.3f}; a step: {each['samples']:.1f} pairs"
            f" of {per_pair:.0f} ns, {each['marks']:.1f} marks of {per_mark:.0f} ns, {each['profiler_samples']:.1f}"
            f" timed by NCCL, {each['kernel_launches']:.0f} launches, {each['calls']:.0f} calls counted in"
            f" {per_call:.0f} ns each, own {each['own_ns'] / 1e3:.1f} us, poller"
            f" {each['poller_cpu_ns'] / 1e3:.1f} us, polls {each['polls']:.2f}, no room"
            f" {each['no_event'] + each['stream_full'] + each['queue_full']:.1f}, 1 in"
            f" {statistics.median(f['period']):.0f}; by its own books {paid:.3f} %"
        )
    if title not in PROMISED:
        return
    noise = max(abs(medians[f"{base} again"][0]), medians[f"{base} again"][1], medians[next(iter(PROMISED[title]))][1])
    report.check(
        noise < NOISE, f"{title}: noise {noise:.3f} %, has to be below {NOISE} %; {rounds * steps} steps a side"
    )
    for name, most in PROMISED[title].items():
        over, error = medians[name]
        inside = abs(over) <= 2 * error and noise < NOISE
        report.check(over <= most or inside, f"{title}: {name} {over:+.3f} %, promised {most} %"
                     f"{' (inside the noise)' if over > most and inside else ''}")


def ab(report, part, results):
    for name, result in results.items():
        if "variants" in result:
            compare(report, f"{part} {name}", result)
        else:
            report.say(
                f"{part} {name}: step {result['with'] * 1e3:.3f} ms instead of {result['without'] * 1e3:.3f} ms: "
                f"{(result['with'] / result['without'] - 1) * 100:+.2f} %"
            )


# Calls of a series before its stream is busy: CUPTI's first launches keep the host for half a millisecond.
FIRST = 2


def durations(report, kind, rows, least_us):
    """Recorded durations beside CUPTI's."""
    wrong = calls = wrong_first = first = counts = flops = 0
    for key, row in rows.items():
        cupti, ours = row["cupti_us"], row["ours_us"]
        counts += row["calls"] != row["expected"]
        flops += "flop" in row and row["work"] != row["flop"] * row["all_calls"]
        if not cupti or not ours:
            report.say(
                f"  {key:26} CUPTI {len(cupti)} of {row['kernels']} kernels, ours {len(ours)}, counted {row['calls']}"
                f" of {row['expected']}"
            )
            continue
        theirs, mine = statistics.median(cupti), statistics.median(ours)
        pairs = list(zip(ours, cupti)) if len(ours) == len(cupti) else []
        if theirs >= least_us:
            off = [abs(a / b - 1) > 0.05 for a, b in pairs]
            calls += len(off)
            wrong += sum(off)
            first += len(off[:FIRST])
            wrong_first += sum(off[:FIRST])
        line = (
            f"  {key:26} ours {mine:10.1f} us, CUPTI {theirs:10.1f} ({(mine / theirs - 1) * 100:+6.1f} %,"
            f" {mine - theirs:+.1f} us), {len(ours)} of {row['calls']} timed"
        )
        if row.get("direct_us"):
            direct = statistics.median(row["direct_us"])
            bandwidth = row["bytes"] * row["factor"] / 1e3
            line += f", back to back {direct:.1f}; bus {bandwidth / mine:.2f} GB/s, directly {bandwidth / direct:.2f}"
        report.say(line)
    report.check(counts == 0, f"{kind}: {counts} counts of {len(rows)} wrong")
    report.check(
        calls > 0 and wrong <= calls * 0.05,
        f"{kind} of {least_us} us and more: {wrong} of {calls} durations more than 5 % off CUPTI's, "
        f"of them {wrong_first} of the {first} that began their series, on an idle stream",
    )
    if kind == "matmuls":
        report.check(flops == 0, f"{kind}: FLOP of {flops} of {len(rows)} wrong")


def bandwidth(report, rows):
    """Compared with CUPTI's kernels, and with many calls between two events. The latter include the pauses
    between kernels, and small calls take the host's time, not the network's."""
    for title, reference in (("CUPTI", "cupti_us"), ("calls back to back", "direct_us")):
        off = {key: (statistics.median(row[reference]) / statistics.median(row["ours_us"]) - 1) * 100
               for key, row in rows.items() if row["ours_us"] and row[reference]}
        far = {key: value for key, value in off.items() if abs(value) > 5}
        line = f"bus bandwidth against {title}: {len(far)} of {len(off)} more than 5 % off: " + ", ".join(
            f"{k} {v:+.1f} %" for k, v in far.items()
        )
        if reference == "cupti_us":
            report.check(not far and bool(off), line)
        else:
            report.say(f"        {line}")


def gpu_time(report, result):
    """Seconds by kind; only the share of kernels without a library call is promised."""
    ours, cupti = result["ours"], result["cupti"]
    for kind, our in ours.items():
        their = cupti.get(kind, {"seconds": 0, "kernels": 0})
        off = f"{(our['seconds'] / their['seconds'] - 1) * 100:+.1f} %" if their["seconds"] else "-"
        report.say(
            f"  {kind:10} ours {our['seconds'] * 1e3:9.2f} ms of {our['calls']} calls, {our['samples']} of them timed; "
            f"CUPTI {their['seconds'] * 1e3:9.2f} ms of {their['kernels']} kernels ({off})"
        )
    shares = [found.get("untraced", {"seconds": 0})["seconds"] / max(sum(k["seconds"] for k in found.values()), 1e-9)
              for found in (ours, cupti)]
    report.check(bool(ours) and abs(shares[0] - shares[1]) <= 0.05,
                 f"untraced share {shares[0] * 100:.1f} %, by CUPTI {shares[1] * 100:.1f} %, may be 5 points apart")
    launches, kernels = ours.get("untraced", {}).get("calls", 0), cupti.get("untraced", {}).get("kernels", 0)
    report.check(abs(launches - kernels) <= kernels * 0.01, f"untraced kernels: {launches} counted, {kernels} by CUPTI")


def profiler(report, part, results):
    """NCCL's own profiler interface: durations against CUPTI's, algorithm and protocol, cost."""
    state = results.pop("interface", None)
    if state:
        report.check(state["state"] == 1 and state["version"] >= 4, f"{part}: {state}")
    rows = results.pop("collectives", {})
    if rows:
        report.say("by NCCL's profiler interface:")
        durations(report, "collectives", rows, 50)
        for key, row in rows.items():
            report.say(f"  {key:26} {row['way']}, sources {row['sources']}")
        report.check(
            all(row["sources"] == [4] for row in rows.values()), "no other source than NCCL's profiler interface"
        )
        report.check(
            all(len(row["ours_us"]) == row["expected"] for row in rows.values()), "every collective has a duration"
        )
    group = results.pop("grouped", None)
    if group:
        report.check(group["timed"] == group["calls"], f"collectives in groups: {group}")
    ab(report, part, results)


def checks(report, _, results):
    for kind, least in (("matmuls", 20), ("collectives", 50)):
        if kind in results:
            report.say(f"{kind}:")
            durations(report, kind, results[kind], least)
    if "collectives" in results:
        bandwidth(report, results["collectives"])
    if "GPU time" in results:
        report.say("GPU time by kind, estimated from a sample:")
        gpu_time(report, results["GPU time"])
    for name, result in results.items():
        if isinstance(result, str):
            report.check(result == "ok", f"{name}: {result}")
        elif name not in ("matmuls", "collectives", "GPU time"):
            report.say(f"  {name}: {result}")


def call_costs(report, xpurun, runs, seconds):
    """bench/call_cost.cpp, built here, against the libraries that torch has loaded."""
    maps = subprocess.run(
        [sys.executable, "-c", "import torch; print(open('/proc/self/maps').read())"],
        capture_output=True,
        text=True,
        check=True,
        timeout=seconds,
    ).stdout.split()
    paths = [next((p for p in maps if f"/{name}.so" in p), None) for name in ("libcudart", "libcublas", "libnccl")]
    program = runs / "call_cost"
    subprocess.run(
        ["g++", "-O2", "-o", program, HERE.parents[1] / "bench" / "call_cost.cpp", "-ldl"], check=True, timeout=60
    )
    deadline = time.monotonic() + seconds
    for options in (("--timing", "off"), ("--timing", "light"), ("--timing", "full", "--overhead-budget", "100%")):
        done = subprocess.run(
            [xpurun, "--out", str(runs / f"calls-{options[1]}"), *options, "--", program, *map(str, paths)],
            capture_output=True,
            text=True,
            timeout=max(1, deadline - time.monotonic()),
        )
        report.say(f"calls, {' '.join(options)}: status {done.returncode}")
        for line in (done.stdout + done.stderr).splitlines():
            report.say(f"  {line}")


def run(report, xpurun, out, runs, part, seconds):
    _, options, more = PARTS[part]
    env = {**os.environ, "NCCL_NVLS_ENABLE": "0", "PYTHONUNBUFFERED": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1", **more}
    begun = time.monotonic()
    if part == "calls":
        call_costs(report, xpurun, runs, seconds)
        return
    arguments = [part, str(out / part), f"{seconds - START:.0f}"]
    status = execute(
        [xpurun, "--out", str(runs / f"{part}.run"), *options, "--metrics-port", "auto", "--", *torchrun(arguments)],
        seconds,
        out / f"{part}.log",
        env,
    )
    report.say(f"{part}: status {status} in {time.monotonic() - begun:.0f} s")
    if status != 0:
        report.good = False
        report.say(
            "\n".join("    " + line for line in (out / f"{part}.log").read_text(errors="replace").splitlines()[-12:])
        )
    try:
        results = json.loads((out / f"{part}.0.json").read_text())
    except OSError:
        report.check(False, f"{part}: nothing was measured")
        return
    kinds = {"checks": checks, "gpu": checks, "profiler": profiler}
    kinds.get(part.split("-")[0], ab)(report, part, results)


def put_away(out, runs):
    """Packs everything except the report into one archive, so that few files have to be copied."""
    for path in list(out.iterdir()):
        if path.name not in ("report.txt", "raw.tar.gz"):
            shutil.move(path, runs / path.name)
    subprocess.run(
        ["tar", "--exclude=call_cost", "--exclude=*.sock", "-czf", out / "raw.tar.gz", "-C", runs, "."], check=False
    )


def main():
    xpurun, out = sys.argv[1], pathlib.Path(sys.argv[2]).absolute()
    out.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + SECONDS
    report = Report(out / "report.txt")
    with tempfile.TemporaryDirectory() as directory:
        runs = pathlib.Path(directory)
        for part in sys.argv[3:] or [name for name in PARTS if not name.startswith("profiler")]:
            seconds = min(PARTS[part][0], deadline - time.monotonic() - 3)
            if seconds < (START + 10 if part != "calls" else 5):
                report.check(False, f"{part}: no time left")
                continue
            try:
                run(report, xpurun, out, runs, part, seconds)
            except Exception as error:  # the other parts still give results
                report.check(False, f"{part}: {type(error).__name__}: {error}")
            put_away(out, runs)
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
