"""One job with one fault under xpurun, and its verdict beside the fault."""

import json
import subprocess
import time

from cases import HANG, SLOW
from running import SUSPECTED, VERDICT, Job, read_json

LIMIT_S = 90  # of a trial; a rank that computes for ever is reported after three timeouts
SLOW_LIMIT_S = 110


def slow_verdict(machine, run):
    """What analyze says: its most important warning, as a verdict."""
    done = subprocess.run([machine.xpurun, "analyze", "--format", "json", str(run)], stdout=subprocess.PIPE, text=True,
                          timeout=40, check=False)
    report = json.loads(done.stdout)
    first = next((one for one in report["findings"] if one["severity"] == "warning"), None)
    if first is None:
        return {"id": "none.not_slow", "ranks": [], "sentence": report.get("sentence", "")}
    return {"id": f"{first['problem']}.{first['cause']}", "ranks": first["ranks"], "sentence": first["sentence"],
            "since": first.get("since")}


def named(case, guilty, ranks):
    """Of the verdict's ranks: right, tie (nobody accused), wrong (an innocent rank accused)."""
    expected = [] if case.name == "none" else [guilty]
    if sorted(ranks) == expected:
        return "right"
    return "wrong" if set(ranks) - set(expected) else "nobody"


def hang_timeout_s(gpu):
    """NCCL's first call takes seconds where many jobs start at the same time."""
    return 10 if gpu else 5


def options(case, gpu):
    if case.kind == SLOW:
        return ["--hang-timeout", "60"]
    return ["--hang-timeout", str(hang_timeout_s(gpu)), "--on-hang", "kill", "--grace", "5s"]


def steps_of(case, gpu):
    """Steps of the job, and the step of the fault."""
    if case.kind != SLOW:
        return 1_000_000, 10
    return (240, 100) if gpu else (220, 90)


def attempt(machine, case, shape, limit_s):
    directory = machine.scratch / "faults" / case.name
    directory.mkdir(parents=True)
    ranks = machine.timed_ranks if case.kind == SLOW else machine.ranks
    guilty = case.guilty(ranks)
    steps, at = steps_of(case, machine.gpus)
    job = Job(machine, directory, [
        machine.xpurun, "--out", str(directory / "run"), "--metrics-port", "off", *options(case, machine.gpus), "--",
        *machine.training(directory, ranks, "--shape", shape, "--steps", steps, "--at", at, "--fault", case.name,
                          "--guilty", guilty)])
    began = time.time()
    status = job.wait(min(limit_s, SLOW_LIMIT_S if case.kind == SLOW else LIMIT_S))
    row = {"fault": case.name, "kind": case.kind, "guilty": guilty, "expected": list(case.ids), "status": status,
           "took_s": round(time.time() - began, 1)}
    return row | judged(machine, case, guilty, directory, job)


def judged(machine, case, guilty, directory, job):
    try:
        if case.kind == SLOW:
            verdict = slow_verdict(machine, directory / "run")
        else:
            verdict = read_json(directory / "run" / "verdict.json")
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        verdict = {"sentence": f"no verdict: {error!r}"}
    told = {"id": verdict.get("id", ""), "ranks": verdict.get("ranks", []), "sentence": verdict.get("sentence", ""),
            "since": verdict.get("since"), "confidence": verdict.get("confidence", ""),
            "level": verdict.get("level", "")}
    told["id_right"] = told["id"] in case.ids
    told["named"] = named(case, guilty, told["ranks"]) if told["id"] else "no verdict"
    stalls = read_json(directory / "run" / "run.json").get("stalls", [])
    told["stall"] = {key: stalls[0]["verdict"][key] for key in ("id", "ranks", "sentence")} if stalls else {}
    try:
        fault = int((directory / "fault").read_text(encoding="utf-8")) / 1e9
    except (OSError, ValueError):
        return told  # the job ended before
    known, told["first"] = job.first(VERDICT, fault)
    suspected, _ = job.first(SUSPECTED, fault)
    waited = hang_timeout_s(machine.gpus) if case.kind == HANG else 0
    told["known_s"] = round(known - fault - waited, 2) if known else None
    told["suspected_s"] = round(suspected - fault - waited, 2) if suspected else None
    return told


def row_text(row):
    ids = row["id"] + ("" if row["id_right"] else f" (expected {' or '.join(row['expected'])})")
    if row.get("stall") and row["stall"]["id"] != row["id"]:
        ids += f"; first {row['stall']['id']} of {','.join(map(str, row['stall']['ranks'])) or 'none'}"
    ranks = ",".join(map(str, row["ranks"])) or "none"
    since = {"hang": "timeout", "calls": "call", "end": "death", "slow": "fault"}[row["kind"]]
    known = "-" if row.get("known_s") is None else f"{row['known_s']:+.1f} s after the {since}"
    if row.get("suspected_s") is not None and row["suspected_s"] < (row.get("known_s") or 1e9):
        known += f" (suspected {row['suspected_s']:+.1f} s)"
    return f"| {row['fault']} | {row['guilty']} | {ids} | {ranks}: {row['named']} | {known} |"
