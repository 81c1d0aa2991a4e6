"""Runs the job of tests/gpu/deep_capture under xpurun, captures it, and compares with torch.profiler: XPURUN OUT"""

import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests" / "support"))

import event_file  # noqa: E402

JOB = SOURCE / "tests" / "gpu" / "deep_capture_job.py"
KERNEL = 5
RANKS = """
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29571
for r in 0 1; do
  RANK=$r LOCAL_RANK=$r "$@" &
done
wait
"""


def wait_for(condition, what, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.1)
    raise SystemExit(f"no {what} within {seconds} s")


class Check:
    def __init__(self, program, out):
        self.program, self.out, self.run = program, out, out / "run"
        self.lines, self.numbers = [], {}

    def say(self, line):
        print(line, flush=True)
        self.lines.append(line)

    def capture(self, name, *words):
        began = time.monotonic_ns()
        done = subprocess.run([self.program, "capture", "--run", self.run, *words], capture_output=True, text=True,
                              timeout=90)
        (self.out / f"{name}.txt").write_text(done.stdout + done.stderr)
        if done.returncode != 0:
            self.say(f"{name}: failed: {done.stderr.strip()}")
        return began, time.monotonic_ns()

    def gpu(self, number):
        path = self.run / "captures" / str(number) / "gpu.json"
        return json.loads(path.read_text()) if path.exists() else {"ranks": []}

    def steps_of(self, rank):
        return json.loads((self.out / f"steps.{rank}.json").read_text())

    def step_ms(self, steps, begin, end, profiled=False):
        found = [(b[0] - a[0]) / 1e6 for a, b in zip(steps, steps[1:])
                 if a[0] >= begin and b[0] <= end and a[1] == b[1] == profiled]
        return statistics.median(found) if found else float("nan")

    def captured(self, number, rank):
        """Kernels of whole steps: steps, {name: [count, us]}, launches without a kernel."""
        told = next((r for r in self.gpu(number)["ranks"] if r["rank"] == rank), None)
        if told is None or not told["file"]:
            return 0, {}
        file = event_file.load(self.run / "captures" / str(number) / told["file"])
        begin = told["begin_mono_ns"]
        end = begin + told["seconds"] * 1e9
        ends = [at for at, _ in self.steps_of(rank) if begin <= at <= end]
        kernels = collections.defaultdict(lambda: [0, 0.0])
        if len(ends) < 2:
            return 0, kernels
        for event in file["events"]:
            entry = file["ops"][event["op"]]
            if entry["class"] == KERNEL and ends[0] <= event["begin_ns"] < ends[-1]:
                kernels[entry["function"]][0] += 1
                kernels[entry["function"]][1] += event["duration_ns"] / 1e3
        return len(ends) - 1, kernels

    def compare(self, label, steps, kernels, reference):
        count = sum(c for c, _ in kernels.values()) / max(steps, 1)
        total = sum(us for _, us in kernels.values()) / max(steps, 1)
        nccl = sum(us for name, (_, us) in kernels.items() if "nccl" in name) / max(steps, 1)
        self.numbers[label] = {"steps": steps, "kernels": count, "us": total, "nccl_us": nccl}
        other = ""
        if reference and min(reference) > 0:
            other = f"{count / reference[0] - 1:+8.2%} {(total - nccl) / reference[1] - 1:+8.2%}"
        self.say(f"{label:34} {steps:5} {count:9.1f} {total:12.1f} {total - nccl:12.1f} {other}")
        return count, total - nccl

    def torch(self, number, rank):
        told = json.loads((self.out / f"torch-{number}.{rank}.sums").read_text())
        return told["steps"], told["kernels"]

    def main(self):
        job = subprocess.Popen(
            [self.program, "--out", self.run, "--no-report", "--slow-capture", "off", "--", "bash", "-c", RANKS,
             "ranks", sys.executable, JOB, self.out],
            stdout=(self.out / "job.log").open("w"), stderr=subprocess.STDOUT, start_new_session=True)
        try:
            self.drive(job)
        finally:
            (self.out / "end").touch()
            try:
                job.wait(40)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, 15)
                job.wait(20)
        try:
            self.report()
        finally:
            (self.out / "report.txt").write_text("\n".join(self.lines) + "\n")
            (self.out / "report.json").write_text(json.dumps(self.numbers, indent=1))

    def drive(self, job):
        wait_for(lambda: (self.out / "ready.0").exists() or job.poll() is not None, "step", 60)
        time.sleep(3)
        self.moments = {"before": (time.monotonic_ns() - 3_000_000_000, time.monotonic_ns())}
        self.moments["capture 3"] = self.capture("capture-1", "--steps", "3")
        self.moments["capture 30"] = self.capture("capture-2", "--steps", "30", "--ranks", "0-1")
        began = time.monotonic_ns()
        time.sleep(3)
        self.moments["after"] = (began, time.monotonic_ns())
        (self.out / "profile-1").touch()
        wait_for(lambda: (self.out / "profiled-1").exists(), "profile", 40)
        (self.out / "profile-2").touch()
        wait_for(lambda: (self.out / "profiling-2.1").exists(), "second profile", 20)
        self.moments["conflict"] = self.capture("capture-3", "--duration", "1s")
        wait_for(lambda: (self.out / "profiled-2").exists(), "end of the second profile", 60)
        time.sleep(1)

    def report(self):
        for rank in (0, 1):
            self.say(f"rank {rank:<29} {'steps':>5} {'kernels':>9} {'us a step':>12} {'without NCCL':>12} "
                     f"{'kernels':>8} {'us':>8}")
            reference = self.compare(f"torch.profiler {rank}", *self.torch(1, rank), None)
            self.compare(f"xpurun capture --steps 3 {rank}", *self.captured(1, rank), reference)
            self.compare(f"xpurun capture --steps 30 {rank}", *self.captured(2, rank), reference)
            self.compare(f"torch.profiler during a capture {rank}", *self.torch(2, rank), reference)
        steps = self.steps_of(0)
        self.numbers["step_ms"] = {}
        for name, (begin, end) in self.moments.items():
            if name.startswith("capture"):
                told = self.gpu(1 if name == "capture 3" else 2)["ranks"]
                begin = min((r["begin_mono_ns"] for r in told if r["seconds"] > 0), default=begin)
                end = max((r["begin_mono_ns"] + r["seconds"] * 1e9 for r in told if r["seconds"] > 0), default=end)
            ms = self.step_ms(steps, begin, end, profiled=name == "conflict")
            self.numbers["step_ms"][name] = ms
            self.say(f"step, {name}: {ms:.2f} ms")
        ms = self.step_ms(steps, 0, self.moments["conflict"][0], profiled=True)
        self.numbers["step_ms"]["torch.profiler"] = ms
        self.say(f"step, torch.profiler alone: {ms:.2f} ms")
        for number in (1, 2, 3):
            told = self.gpu(number)
            for r in told["ranks"]:
                self.say(f"captures/{number} rank {r['rank']}: {r['status']} {r['reason']} CUPTI {r['cupti']} records "
                         f"{r['records']} lost {r['lost']} seconds {r['seconds']:.3f} overhead {r['overhead_s']:.6f} "
                         f"handling {r['handling_s']:.6f} setup {r['setup_s']:.3f} teardown {r['teardown_s']:.3f}")
            self.numbers[f"captures/{number}"] = told
            clocks = self.run / "captures" / str(number) / "clocks.json"
            if clocks.exists():
                read = json.loads(clocks.read_text())
                gpus = [f"{g['sm_median_mhz']} MHz {g['power_w']:.0f} W {g['throttle_reasons']}" for g in read["gpus"]]
                self.say(f"captures/{number} clocks every {1000 * read['interval_s']:.1f} ms {read['reason']} "
                         + "; ".join(gpus))


if __name__ == "__main__":
    Check(sys.argv[1], pathlib.Path(sys.argv[2]).resolve()).main()
