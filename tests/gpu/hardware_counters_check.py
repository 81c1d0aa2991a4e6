"""Runs the job of tests/gpu/hardware_counters under xpurun, captures it, prints the counters' readings: XPURUN OUT"""

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

JOB = SOURCE / "tests" / "gpu" / "hardware_counters_job.py"
KERNEL = 5
FLOP_PER_CYCLE = 4096  # of a multiprocessor of an H100 or H200, dense, 16 bits
RANKS = """
export WORLD_SIZE=$1
shift
for ((r = 0; r < WORLD_SIZE; ++r)); do
  RANK=$r LOCAL_RANK=0 "$@" &
done
wait
"""


def wait_for(condition, what, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    raise SystemExit(f"no {what} within {seconds} s")


class Run:
    """One job with captures."""

    def __init__(self, check, name, ranks=1, counters=True):
        self.check, self.folder = check, check.out / name
        self.dir = self.folder / "run"
        self.folder.mkdir(parents=True)
        self.ranks, self.captures, self.job = ranks, 0, {}
        env = dict(os.environ) if counters else {**os.environ, "XPURUN_PM_SAMPLING": "0"}
        self.process = subprocess.Popen(
            [check.program, "--out", self.dir, "--no-report", "--slow-capture", "off", "--", "bash", "-c", RANKS,
             "ranks", str(ranks), sys.executable, JOB, self.folder],
            stdout=(self.folder / "job.log").open("w"), stderr=subprocess.STDOUT, start_new_session=True, env=env)
        check.runs.append(self)
        wait_for(lambda: all((self.folder / f"ready.{r}").exists() for r in range(ranks))
                 or self.process.poll() is not None, "step", 120)
        time.sleep(2)

    def capture(self, duration):
        self.captures += 1
        done = subprocess.run([self.check.program, "capture", "--run", self.dir, "--duration", duration, "--json"],
                              capture_output=True, text=True, timeout=90)
        (self.folder / f"capture-{self.captures}.json").write_text(done.stdout)
        if done.returncode != 0:
            self.check.say(f"{self.folder.name}: no capture: {done.stderr.strip()}")
            return {"ranks": [], "work": []}
        time.sleep(1)
        return json.loads(done.stdout).get("gpu", {"ranks": [], "work": []})

    def end(self):
        (self.folder / "end").touch()
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 15)
            self.process.wait(20)
        for r in range(self.ranks):
            path = self.folder / f"job.{r}.json"
            none = {"ends": [], "failed_graphs": ["no result"]}
            self.job[r] = json.loads(path.read_text()) if path.exists() else none

    def step_ms(self, begin, end):
        ends = self.job[0]["ends"]
        found = [(b - a) / 1e6 for a, b in zip(ends, ends[1:]) if a >= begin and b <= end]
        return statistics.median(found) if found else float("nan")


class Check:
    def __init__(self, program, out):
        self.program, self.out, self.lines, self.numbers, self.runs = program, out, [], {}, []

    def say(self, line):
        print(line, flush=True)
        self.lines.append(line)

    def main(self):
        try:
            self.one_rank()
            self.without()
            self.two_ranks()
        finally:
            for run in self.runs:
                if run.process.poll() is None:
                    os.killpg(run.process.pid, 15)
            (self.out / "report.txt").write_text("\n".join(self.lines) + "\n")
            (self.out / "report.json").write_text(json.dumps(self.numbers, indent=1))

    def one_rank(self):
        run = Run(self, "with")
        first, second = run.capture("3s"), run.capture("1s")
        (run.folder / "profile").touch()
        wait_for(lambda: (run.folder / "profiled.0").exists(), "profile", 60)
        after = run.capture("1s")
        run.end()
        text = subprocess.run([self.program, "analyze", run.dir], capture_output=True, text=True,
                              env={**os.environ, "COLUMNS": "120"})
        (self.out / "analyze.txt").write_text(text.stdout + text.stderr)
        self.say(f"GPU: {run.job[0].get('gpu')}")
        for name, gpu in (("3 s", first), ("second, 1 s", second), ("after torch.profiler", after)):
            self.tell_sampling(name, gpu)
        self.say(f"torch.profiler after two captures saw {run.job[0].get('profiled')} operations; "
                 f"graphs not captured: {len(run.job[0]['failed_graphs'])} {run.job[0]['failed_graphs'][:1]}")
        if first["ranks"] and first["ranks"][0]["file"]:
            self.tell_expected(run, first)
            self.tell_clock(run, first)
        self.with_counters = self.tell_cost("with counters", run, first)

    def without(self):
        run = Run(self, "without", counters=False)
        gpu = run.capture("3s")
        run.end()
        self.tell_sampling("XPURUN_PM_SAMPLING=0", gpu)
        without = self.tell_cost("without counters", run, gpu)
        for name, (count, mean) in sorted(self.with_counters.items()):
            if name in without and count > 10:
                self.say(f"  {name[:50]:50} {count:6} x {mean * 1e6:9.1f} us with, {without[name][0]:6} x "
                         f"{without[name][1] * 1e6:9.1f} us without ({mean / without[name][1] - 1:+.2%})")

    def two_ranks(self):
        run = Run(self, "two", ranks=2)
        gpu = run.capture("1s")
        run.end()
        self.tell_sampling("two ranks on one GPU", gpu)

    def tell_sampling(self, name, gpu):
        self.numbers[name] = gpu
        for r in gpu["ranks"]:
            s = r.get("sampling")
            self.say(f"{name}, rank {r['rank']}: capture {r['status']} {r['reason']}, {r['records']} records, "
                     f"{r['seconds']:.3f} s; counters {s['status'] if s else 'not tried'} {s['reason'] if s else ''}")
            if s and s["samples"]:
                begin_ms = (s["begin_mono_ns"] - r["begin_mono_ns"]) / 1e6
                self.say(f"  {s['samples']} samples, asked {s['asked_s'] * 1e6:.1f} us, true "
                         f"{s['interval_s'] * 1e6:.2f} us (over {s['seconds']:.3f} s), lost {s['lost']}, overflows "
                         f"{s['overflows']}; begin {begin_ms:+.2f} ms of the recording; setup {s['setup_s']:.3f} s, "
                         f"reading {s['handling_s']:.3f} s, stop {s['stop_s'] * 1e3:.1f} ms")
                for use in s["resources"]:
                    self.say(f"    {use['resource']:10} mean {use['mean']:12.6g} spread {use['spread']:12.6g} "
                             f"{use['unit']:8} {use['metric']}")

    def tell_expected(self, run, gpu):
        """What the counters should be, from the kernels' own durations."""
        job = run.job[0]
        mhz = next((c["sm_median_mhz"] for c in gpu.get("clocks", [])), -1)
        rank = gpu["ranks"][0]
        means = {u["resource"]: u["mean"] for u in rank["sampling"]["resources"]} if rank.get("sampling") else {}
        self.say(f"SM active {means.get('sm', -1):.3f}, expected near the busy share of the GPU "
                 f"{rank['busy_share']:.3f} (with copies); SM clock {mhz} MHz")
        for w in gpu["work"]:
            uses = {u["resource"]: u for u in w.get("resources", [])}
            if not uses or w["count"] == 0:
                continue
            per_s = 1 / w["mean_s"]
            expected = ""
            if "gemm" in w["name"].lower() or "nvjet" in w["name"] or "cutlass" in w["name"]:
                share = job["matmul_flop"] * per_s / (job["sms"] * FLOP_PER_CYCLE * mhz * 1e6) if mhz > 0 else -1
                expected = f"expected tensor {share:.3f}"
            elif "elementwise" in w["name"] and job["dram_peak"] > 0:
                expected = f"expected dram {job['added_bytes'] * per_s / job['dram_peak']:.3f}"
            elif "HtoD" in w["name"]:
                expected = f"expected {job['copied_bytes'] * per_s:.4g} bytes/s by PCIe"
            told = ", ".join(f"{n} {u['mean']:.4g} ±{u['spread']:.2g}" for n, u in uses.items())
            self.say(f"  {w['name'][:60]}: {w['count']} x {w['mean_s'] * 1e6:.1f} us, fits {w['resource']}, filled "
                     f"{w['filled']:.2f}: {told} {expected}")

    def tell_clock(self, run, gpu):
        """Shift of the samples of SM active against the kernels' own times that fits best."""
        import numpy
        told = gpu["ranks"][0]
        place = run.dir / "captures" / "1"
        if not told.get("sampling", {}).get("file"):
            return
        file = event_file.load(place / told["file"])
        samples = event_file.resources(place / told["sampling"]["file"])["samples"]
        begin, grid = told["begin_mono_ns"], 10_000
        size = int(told["seconds"] * 1e9 / grid)
        busy, active = numpy.zeros(size), numpy.full(size, numpy.nan)
        for event in file["events"]:
            if file["ops"][event["op"]]["class"] == KERNEL:
                at = (event["begin_ns"] - begin) // grid
                busy[max(at, 0):max((event["begin_ns"] + event["duration_ns"] - begin) // grid, 0)] = 1
        for s in samples:
            at = (s["begin_ns"] - begin) // grid
            active[max(at, 0):max((s["begin_ns"] + s["duration_ns"] - begin) // grid, 0)] = s["values"].get(0, 0)
        best = []
        for shift in range(-300, 301):
            moved = numpy.roll(active, shift)[400:-400]
            known = ~numpy.isnan(moved)
            if known.sum() > 1000:
                best.append((float(numpy.mean(numpy.abs(moved[known] - busy[400:-400][known]))), shift * grid / 1e3))
        if best:
            zero = next(distance for distance, shift in best if shift == 0)
            distance, shift = min(best)
            self.numbers["clock"] = {"shift_us": shift, "distance": distance, "distance_unshifted": zero}
            self.say(f"samples fit the kernels best when moved by {shift:+.0f} us (mean distance {distance:.4f}, "
                     f"unmoved {zero:.4f})")

    def tell_cost(self, name, run, gpu):
        told = [r for r in gpu["ranks"] if r["seconds"] > 0]
        if not told:
            return {}
        begin = told[0]["begin_mono_ns"]
        end = begin + told[0]["seconds"] * 1e9
        setup = told[0]["setup_s"] + (told[0].get("sampling") or {}).get("setup_s", 0)
        steps = {"before": run.step_ms(begin - setup * 1e9 - 2e9, begin - setup * 1e9),
                 "setting up": run.step_ms(begin - setup * 1e9, begin), "during": run.step_ms(begin, end),
                 "after": run.step_ms(end + 3e8, end + 1.3e9)}
        self.numbers[f"steps {name}"] = steps
        self.say(f"{name}: step in ms: " + ", ".join(f"{n} {ms:.2f}" for n, ms in steps.items())
                 + f"; CUPTI's own time {told[0]['overhead_s']:.4f} s, records {told[0]['handling_s']:.4f} s, setup "
                 f"{told[0]['setup_s']:.3f} s, teardown {told[0]['teardown_s']:.3f} s")
        return {w["name"]: (w["count"], w["mean_s"]) for w in gpu["work"] if w["kind"] == "kernel"}


if __name__ == "__main__":
    Check(sys.argv[1], pathlib.Path(sys.argv[2]).resolve()).main()
