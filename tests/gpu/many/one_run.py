"""One healthy run with a trace of some steps and a capture: time line of all ranks, groups, NVLink, the page."""

import json
import os
import re
import shutil
import subprocess
import time

from running import Job, read_json, stages_of
from shapes import sent_bytes

# The page shows the last ten seconds, so the trace comes last.
STEPS, CAPTURED_FROM, CAPTURED, TRACED_FROM, TRACED = 240, 60, 20, 220, 10
SHARE_WITHOUT_GPU = 0.3


def call(machine, *arguments, seconds=60):
    done = subprocess.run([machine.xpurun, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=seconds, check=False, env=dict(os.environ, COLUMNS="120"))
    return done.returncode, done.stdout


def wait_for_step(job, number, seconds):
    limit = time.monotonic() + seconds
    output = job.directory / "output.txt"
    while time.monotonic() < limit and job.process.poll() is None:
        if f"step {number} loss" in output.read_text(encoding="utf-8", errors="replace"):
            return True
        time.sleep(0.2)
    return False


def driver_counters(machine):
    """By GPU: bytes that the driver has counted on its NVLinks, sent and received, where it tells."""
    if not machine.gpus:
        return []
    done = subprocess.run(["nvidia-smi", "nvlink", "-gt", "d"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=30, check=False)
    found = []
    for line in done.stdout.splitlines():
        if line.startswith("GPU "):
            found.append({"Tx": 0, "Rx": 0})
        elif (link := re.search(r"Data (Tx|Rx): (\d+) KiB", line)) and found:
            found[-1][link[1]] += int(link[2]) * 1024
    return found or [done.stdout[:300]]


def nvlink(capture, step_s, shape, stages):
    """By rank: the counters' bytes of a step, sent and received, beside the least that the job sends."""
    rows = []
    for rank in capture.get("gpu", {}).get("ranks", []):
        sampling = rank.get("sampling") or {}
        means = {one["resource"]: one["mean"] for one in sampling.get("resources", [])}
        rows.append({"rank": rank["rank"], "status": sampling.get("status", rank.get("status")),
                     "reason": sampling.get("reason", ""), "samples": sampling.get("samples", 0),
                     "sent_GB_s": means.get("nvlink_tx", 0) / 1e9, "received_GB_s": means.get("nvlink_rx", 0) / 1e9,
                     "sent_GB_step": means.get("nvlink_tx", 0) * step_s / 1e9,
                     "job_GB_step": sent_bytes(shape, stages) / 1e9})
    return rows


def follow(machine, limit_s):
    share = 1 if machine.gpus else SHARE_WITHOUT_GPU
    steps, captured_from, traced_from = (round(number * share) for number in (STEPS, CAPTURED_FROM, TRACED_FROM))
    directory = machine.scratch / "one-run"
    directory.mkdir()
    shape = "large" if machine.gpus else "tiny"
    run = directory / "run"
    job = Job(machine, directory, [machine.xpurun, "--out", str(run), "--metrics-port", "off", "--timeline",
                                   f"steps:{traced_from}-{traced_from + TRACED}", "--",
                                   *machine.training(directory, machine.timed_ranks, "--shape", shape, "--steps",
                                                     steps)])
    told = {"ranks": machine.timed_ranks, "shape": shape, "steps": steps, "driver_before": driver_counters(machine)}
    if wait_for_step(job, captured_from // 10 * 10, limit_s * 0.6):
        status, text = call(machine, "capture", "--run", run, "--steps", CAPTURED, "--json")
        (directory / "capture.json").write_text(text, encoding="utf-8")
        told["capture"] = status
    told["status"] = job.wait(limit_s)
    told["driver_after"] = driver_counters(machine)
    if told["status"] != 0:
        raise RuntimeError((directory / "output.txt").read_text(encoding="utf-8")[-1500:])
    ends = [int(line) for line in (directory / "ends-0.txt").read_text(encoding="utf-8").split()]
    before = ends[captured_from // 2:captured_from - 5]
    told["step_ms"] = (before[-1] - before[0]) / (len(before) - 1) / 1e6
    steps = read_json(run / "captures" / "1" / "gpu.json")
    during_s = steps.get("step_during_s") or told["step_ms"] / 1e3
    told["step_during_ms"] = during_s * 1e3
    told["nvlink"] = nvlink(read_json(directory / "capture.json"), during_s, shape,
                            stages_of(machine.timed_ranks))
    return directory, told


def inferred_groups(report):
    """Each group of the collectives with its ranks, as analyze names them: of no group the program told the name."""
    rows = report.get("operations", {}).get("collectives", [])
    return sorted({f"{row['group']}: ranks {row['members']}, {row['operation']}" for row in rows})


def describe(machine, directory, told, out):
    run = directory / "run"
    status, text = call(machine, "timeline", "--compress", "-o", out / "timeline.perfetto-trace.gz", run)
    told["timeline"] = {"status": status, "text": text.splitlines()[-12:]}
    status, text = call(machine, "analyze", "--format", "json", run)
    told["groups"] = inferred_groups(json.loads(text))
    told["sentence"] = json.loads(text)["sentence"]
    status, text = call(machine, "analyze", run)
    (directory / "analyze.txt").write_text(text, encoding="utf-8")
    told["verdict"] = read_json(run / "verdict.json").get("id")
    if (run / "report.html").exists():
        shutil.copy(run / "report.html", out / "page.html")
