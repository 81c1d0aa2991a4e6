#!/usr/bin/env python3
"""The preload's timing on real GPUs: is it right, what does it cost? Needs two GPUs and a Python with torch and NCCL.

usage: tests/gpu/timing.py XPURUN OUT_DIR [MODE...]     modes: correct graphs ab-fsdp ab-ddp ab-small ab-fsdp-1

Prints a compact table; exits 1 if something promised does not hold. ab-fsdp-1 is ab-fsdp under
CUDA_DEVICE_MAX_CONNECTIONS=1.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

JOB = pathlib.Path(__file__).with_name("timing_job.py")
MODES = ("correct", "graphs", "ab-fsdp", "ab-ddp", "ab-small", "ab-fsdp-1")
# Most overhead in percent of light and full timing.
PROMISED = {"ab-fsdp": (0.1, 0.5), "ab-ddp": (0.1, 0.5), "ab-small": (1.0, None), "ab-fsdp-1": (0.3, None)}


def run(xpurun, out, mode):
    level = "off" if mode.startswith("ab-") else "full"
    env = {**os.environ, "NCCL_NVLS_ENABLE": "0", "XPURUN_TIMING_OUT": str(out)}
    if mode.endswith("-1"):
        env["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    begun = time.monotonic()
    done = subprocess.run(
        [xpurun, "--out", str(out), "--timing", level, "--metrics-port", "auto", "--", sys.executable, "-m", "torch.distributed.run",
         "--standalone", "--nproc_per_node", "2", str(JOB), mode.removesuffix("-1"), f"{out}.json"],
        capture_output=True, text=True, timeout=550, env=env)
    (out / "stderr.txt").write_text(done.stdout + done.stderr)
    print(f"{mode}: status {done.returncode} in {time.monotonic() - begun:.0f} s", flush=True)
    if done.returncode != 0:
        print("\n".join((done.stdout + done.stderr).splitlines()[-15:]))
        return None
    return [json.loads(pathlib.Path(f"{out}.json.{rank}").read_text()) for rank in (0, 1)]


def percent(value, base):
    return (value / base - 1) * 100


def check_ab(mode, results):
    """Rank 0's step times: the ranks wait for each other."""
    times = results[0]["times"]
    median = {level: statistics.median(t) for level, t in times.items()}
    # How far medians of rounds of one and the same level lie apart: what cannot be told from noise.
    rounds = [statistics.median(times["off"][i:i + 20]) for i in range(0, len(times["off"]), 20)]
    noise = percent(median["off"] + statistics.stdev(rounds) / len(rounds) ** 0.5, median["off"])
    profiler = statistics.median(results[0]["torch_profiler"])
    light, full = percent(median["light"], median["off"]), percent(median["full"], median["off"])
    print(f"  step off {median['off'] * 1e3:.3f} ms; light {light:+.3f} %, full {full:+.3f} %, torch profiler "
          f"{percent(profiler, median['off']):+.2f} %; standard error {noise:.3f} %, {len(times['off'])} steps a side")
    most_light, most_full = PROMISED[mode]
    good = light <= max(most_light, 2 * noise) and (most_full is None or full <= max(most_full, 2 * noise))
    print(f"  {'ok' if good else 'WRONG'}: promised light {most_light} %, full {most_full} %")
    return good


def ours(out):
    """{rank: {"bf16 m n k" or "AllReduce count": (calls, mean µs)}} of timing.json."""
    found = {}
    for rank in json.loads((out / "timing.json").read_text())["ranks"]:
        table = found.setdefault(rank["rank"], {})
        for op in rank["ops"]:
            if op["class"] == "matmul":
                key = f"{op['dtype']} {op['m']} {op['n']} {op['k']}"
            elif op["class"] == "collective":
                key = f"{op['api'].removeprefix('nccl')} {op['k']}"
            else:
                continue
            calls, timed, ns = table.get(key, (0, 0, 0))
            table[key] = (calls + op["calls"], timed + op["timed"], ns + op["timed_ns"])
    return found


def check_correct(out, results):
    wrong = total = missed = 0
    for rank, result in enumerate(results):
        table = ours(out).get(rank, {})
        for kind, least_us in (("matmuls", 20), ("collectives", 50)):
            for key, theirs in result[kind].items():
                calls, timed, ns = table.get(key, (0, 0, 0))
                mean = ns / timed / 1e3 if timed else 0
                off = percent(mean, theirs["us"]) if theirs["us"] else 0
                counted = calls == theirs["calls"] or kind == "collectives" and calls >= theirs["calls"]
                missed += not counted
                if theirs["us"] >= least_us:
                    total += 1
                    wrong += abs(off) > 5
                mark = "" if counted and (abs(off) <= 5 or theirs["us"] < least_us) else "  <--"
                direct = f", back to back {theirs['direct_us']:.1f}" if "direct_us" in theirs else ""
                print(f"  rank {rank} {key:26} calls {calls}/{theirs['calls']} timed {timed} ours {mean:9.1f} µs CUPTI "
                      f"{theirs['us']:9.1f} ({off:+.1f} %){direct}{mark}")
    good = total > 0 and wrong <= total * 0.05 and missed == 0
    print(f"  {'ok' if good else 'WRONG'}: {wrong} of {total} means more than 5 % off, {missed} counts wrong")
    return good


def main():
    xpurun, base = sys.argv[1], pathlib.Path(sys.argv[2]).absolute()
    good = True
    for mode in sys.argv[3:] or MODES:
        out = base / mode
        out.parent.mkdir(parents=True, exist_ok=True)
        results = run(xpurun, out, mode)
        if results is None:
            good = False
        elif mode == "correct":
            good = check_correct(out, results) and good
        elif mode == "graphs":
            print(f"  {', '.join(results[0]['done'])}")
        else:
            good = check_ab(mode, results) and good
        path = out / "metrics.prom"
        if path.exists():
            text = path.read_text()
            print("  " + " ".join(line for line in text.splitlines() if line.startswith(
                ("xpurun_overhead_seconds_total", "xpurun_own_cuda_errors_total", "xpurun_poller_cpu_seconds_total"))))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
