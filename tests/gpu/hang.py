#!/usr/bin/env python3
"""Real NCCL hangs on real GPUs: checks one verdict per fault. Needs two GPUs and a Python with torch and NCCL.

usage: tests/gpu/hang.py XPURUN OUT_DIR

Prints a table; exits 1 if a verdict is wrong. Run directories stay in OUT_DIR.
"""

import json
import pathlib
import subprocess
import sys
import time

JOB = pathlib.Path(__file__).resolve().parents[1] / "e2e" / "jobs" / "ddp_job.py"
GUILTY = 1
# fault: (kind, state or signal, exit status of xpurun under --on-hang kill)
FAULTS = {
    "none": ("none", None, 0),
    "sleep": ("hang", "stuck", 124),
    "spin": ("hang", "busy", 124),
    "stop": ("hang", "stopped", 124),
    "segv": ("crash", 11, 139),
    "kill": ("crash", 9, 137),
}


def run(xpurun, out, fault):
    command = [xpurun, "--out", str(out), "--hang-timeout", "5", "--on-hang", "kill", "--grace", "5s", "--",
               sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(JOB),
               "--backend", "nccl", "--guilty", str(GUILTY), "--fault", fault, "--at-step", "20", "--steps",
               "60" if fault == "none" else "100000"]
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    (out / "stderr.txt").write_text(done.stderr)
    return done.returncode, time.monotonic() - begun


def pauses(out):
    """Pause of each rank and time between the first and the last stop, in ms."""
    found = []
    spread = 0
    for path in sorted(out.glob("dumps/*/dump.json")):
        dump = json.loads(path.read_text())
        found += [p["pause_ns"] / 1e6 for p in dump["processes"] if p["role"] == "rank" and p["status"] == "ok"]
        spread = max(spread, dump["spread_ns"] / 1e6)
    return found, spread


def main():
    xpurun, base = sys.argv[1], pathlib.Path(sys.argv[2])
    wrong = 0
    for fault, (kind, detail, status) in FAULTS.items():
        out = base / fault
        try:
            got_status, seconds = run(xpurun, out, fault)
            verdict = json.loads((out / "verdict.json").read_text())
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            print(f"WRONG {fault}: {error}")
            wrong += 1
            continue
        got_detail = {"hang": verdict["state"], "crash": verdict.get("signal")}.get(verdict["kind"])
        ranks = [] if kind == "none" else [GUILTY]
        good = (verdict["kind"], got_detail, verdict["ranks"], got_status) == (kind, detail, ranks, status)
        wrong += not good
        paused, spread = pauses(out)
        print(f"{'ok   ' if good else 'WRONG'} {fault:6} status {got_status} in {seconds:.1f} s; paused "
              f"{', '.join(f'{p:.2f}' for p in paused) or '-'} ms, spread {spread:.2f} ms")
        print(f"      {verdict['sentence']}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
