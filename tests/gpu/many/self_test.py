"""`xpurun selftest` in small parts, several at a time, on all GPUs: each part begins with another GPU."""

import concurrent.futures
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import time

from running import HERE, PYTHON

PART = 3  # injections of a part; each part loads torch once more


def load_tally():
    loader = importlib.machinery.SourceFileLoader("run_selftest", str(HERE.parent / "run_selftest"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_selftest", loader))
    loader.exec_module(module)
    return module


run_selftest = load_tally()


def visible(gpus, number):
    return ",".join(str((number + at) % gpus) for at in range(gpus))


def try_part(machine, number, injections, deadline):
    directory = machine.scratch / "selftest" / f"part-{number}"
    directory.mkdir(parents=True)
    env = dict(os.environ, **({"CUDA_VISIBLE_DEVICES": visible(machine.gpus, number)} if machine.gpus else {}))
    command = [machine.xpurun, "selftest", *(["--gpu"] if machine.gpus else []), "--json", "--keep", "--inject",
               ",".join(injections), "--", PYTHON]
    left = deadline - time.monotonic()
    if left < 15:
        return [{"injection": name, "result": "skipped", "reason": "no time left"} for name in injections]
    with open(directory / "stderr.txt", "w", encoding="utf-8") as errors:
        process = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=errors, text=True, env=env)
        try:
            output, _ = process.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
            return [{"injection": name, "result": "skipped", "reason": "no time left"} for name in injections]
    (directory / "selftest.json").write_text(output, encoding="utf-8")
    return json.loads(output)["trials"]


def try_all(machine, jobs, names, deadline, tell):
    names = names or run_selftest.injections(machine.xpurun)
    parts = [names[at:at + PART] for at in range(0, len(names), PART)]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(try_part, machine, number, part, deadline) for number, part in enumerate(parts)]
        for future in concurrent.futures.as_completed(futures):
            for trial in future.result():
                tell(trial)


def summary(trials):
    """Lines: the counts, and a row for each injection that was not right."""
    tallies, innocents = {}, 0
    for trial in trials:
        tallies.setdefault(trial["injection"], run_selftest.Tally()).add(trial)
        innocents += len(run_selftest.accused_innocents(trial)) if "expected" in trial else 0
    count = ", ".join(f"{sum(tally.results[result] for tally in tallies.values())} {result}"
                      for result in ("right", "wrong", "skipped"))
    lines = [f"{count}; innocent ranks in confirmed verdicts: {innocents}"]
    rows = [tally.row(name) for name, tally in tallies.items() if not tally.results["right"]]
    if rows:
        lines += ["", "| injection | right | wrong | skipped | longest, s | |", "| --- | --- | --- | --- | --- | --- |",
                  *rows]
    return lines
