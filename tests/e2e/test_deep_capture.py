"""xpurun capture of ranks that use a GPU: kernels, copies and calls by CUPTI, on fake libraries."""

import json
import os
import subprocess

import event_file
import schemas
import xpurun_test
from xpurun_test import PROGRAM, PYTHON, SOURCE

BUILD = os.environ["XPURUN_TEST_BUILD"]
JOB = SOURCE / "tests" / "e2e" / "jobs" / "fake_gpu_job.py"
RANKS = """
for r in 0 1; do
  RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 "$@" &
done
wait
"""


class DeepCapture(xpurun_test.Case):
    def start(self, **env):
        # Without captures of its own: on a busy machine the steps become slower.
        process = self.start_xpurun("--slow-capture", "off", "--", "bash", "-c", RANKS, "ranks", PYTHON, JOB,
                                    f"{BUILD}/tests/preload/libtiming_body13.so", self.dir / "end",
                                    env=self.env(**env))
        self.wait_for(lambda: len(list(self.dir.glob("end.*"))) == 2, "ranks that use their GPUs")
        return process

    def run_capture(self, *words, columns="100"):
        return subprocess.run([PROGRAM, "capture", "--run", self.out, *words], capture_output=True, text=True,
                              timeout=60, env={**os.environ, "COLUMNS": columns})

    def capture(self, *words, columns="100"):
        done = self.run_capture(*words, columns=columns)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def end(self, process):
        (self.dir / "end").touch()
        for ready in self.dir.glob("end.*"):
            ready.unlink()
        output = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, output)

    def test_kernels_copies_and_calls(self):
        process = self.start()
        # Until the first step was seen, there is no capture of twenty.
        text = self.wait_for(lambda: self.run_capture("--steps", "20").stdout, "capture")
        flat = " ".join(text.split())
        self.assertRegex(flat, r"CUPTI recorded \d+ kernels, copies and calls of ranks 0-1 in ")
        self.assertRegex(flat, r"Cost: a step took [\d.]+ ms during the recording and [\d.]+ ms before it \(")
        self.assertRegex(flat, r"CUPTI overhead: 1\.00 ms per rank")
        self.assertRegex(text, r"(?m)^ *\d+\.\d% +\d+\.\d% +\d+ +600\.0 us +600\.0 us +[\d.]+ us .* my_kernel<4>$")
        told = json.loads(self.capture("--duration", "400ms", "--ranks", "1", "--json"))
        schemas.check(self, "capture", told)
        gpu = told["gpu"]
        self.assertEqual([(r["rank"], r["status"], r["cupti"]) for r in gpu["ranks"]], [(1, "complete", 130001)])
        rank = gpu["ranks"][0]
        self.assertTrue(0.35 < rank["seconds"] < 20, rank)
        self.assertAlmostEqual(rank["overhead_s"], 0.001)
        self.assertGreater(rank["busy_share"], 0.5)
        self.check_hardware_counters(rank)
        self.assertRegex(flat, r"Hardware counters: \d+ samples of ranks 0-1, 100\.0 us each; reading them took \d+ % "
                               r"of a thread of the rank, \d+\.\d\d ms to begin \(before the recording\)")
        self.assertRegex(flat, r"Rank 1: SM active \d\d\.\d % \(spread \d\d\.\d %\), tensor pipe \d\d\.\d % .* NVLink "
                               r"received \d\d\.\d GB/s .*, PCIe 0\.5 % \(spread 0\.0 %\)\.")
        self.assertRegex(text, r"(?m)^tensor pipe +97\.0 % +0\.0 % +100\.0 % +100 %  my_kernel<4>$")
        self.assertRegex(text, r"(?m)^NVLink received +100\.0 GB/s +0\.0 MB/s +100\.0 % +100 %  ncclDevKernel")
        self.end(process)

        work = {w["name"]: w for w in gpu["work"]}
        kernel = work["my_kernel<4>"]
        nccl = work["ncclDevKernel_AllReduce_Sum_f32_RING_LL"]
        self.assertEqual((kernel["kind"], nccl["kind"]), ("kernel", "collective"))
        self.assertAlmostEqual(kernel["mean_s"], 600e-6, delta=2e-6)
        self.assertAlmostEqual(kernel["median_s"], 600e-6, delta=2e-6)
        # A third of the collective runs beside the kernel.
        self.assertAlmostEqual(nccl["path"] / nccl["share"], 2 / 3, delta=0.02)
        self.assertAlmostEqual(nccl["count"], kernel["count"], delta=2)

        file = event_file.load(self.out / "captures/2/rank-1.xev")
        names = {entry["function"] for entry in file["ops"].values()}
        self.assertLessEqual({"_Z9my_kernelILi4EEvPfi", "cudaLaunchKernel", "cudaMemcpyAsync", "Memcpy HtoD"}, names)
        self.assertEqual({event["source"] for event in file["events"]}, {6})
        begin = rank["begin_mono_ns"]
        kernels = [e for e in file["events"] if file["ops"][e["op"]]["function"].startswith("_Z9my_kernel")]
        self.assertTrue(all(abs(e["begin_ns"] - begin) < 30e9 for e in kernels))

        self.check_time_line(file, kernels)
        page = (self.out / "report.html").read_text()
        self.assertIn("my_kernel&lt;4&gt;", page)
        self.assertIn("tensor pipe 97.0 % (spread 0.0 %)", page)
        by_kernel = {r["resource"]: r for r in kernel["resources"]}
        self.assertEqual((kernel["resource"], kernel["filled"], nccl["resource"]), ("tensor", 1, "nvlink_rx"))
        self.assertAlmostEqual(by_kernel["dram"]["mean"], 0.2)
        # On a slow machine the calls are below one per cent, and left out.
        self.assertEqual((work.get("cudaLaunchKernel", {}).get("resource"), by_kernel["sm"]["unit"]), (None, "share"))
        analysis = json.loads(self.run_xpurun("analyze", "--format", "json", self.out, out=False).stdout)
        self.assertEqual([len(c["gpu"]["ranks"]) for c in analysis["captures"]], [2, 1])
        idle = analysis["operations"]["idle"][-1]
        rows = json.loads("[" + ",".join(self.run_xpurun(
            "query", "--format", "json", "SELECT rank, source, works, idle_s, outlier FROM idle WHERE record = "
            "'captures/2'", self.out, out=False).stdout.splitlines()) + "]")
        self.assertEqual([(r["rank"], r["source"], r["works"], r["outlier"]) for r in rows],
                         [(1, "CUPTI", idle["ranks"][0]["works"], 0)])
        self.assertAlmostEqual(rows[0]["idle_s"], idle["ranks"][0]["idle_s"], places=6)
        self.assertIn("after_work", self.run_xpurun("query", "--ask", "idle-gaps", self.out, out=False).stdout)
        self.assertEqual((idle["dir"], idle["source"], len(idle["ranks"])), ("captures/2", "CUPTI", 1))
        of_rank = idle["ranks"][0]
        self.assertEqual(of_rank["rank"], 1)
        self.assertEqual(of_rank["untraced_share"], 0)
        self.assertAlmostEqual(of_rank["host_wait_s"] + of_rank["kernel_wait_s"], of_rank["idle_s"], delta=1e-6)
        self.assertLess(0, of_rank["idle_s"] / of_rank["window_s"])
        self.assertLess(of_rank["idle_s"] / of_rank["window_s"], 0.5)
        narrow = self.run_xpurun("analyze", self.out, out=False, env=self.env(COLUMNS="60")).stdout
        self.assertRegex(narrow, r"(?m)^ *\d+\.\d% +my_kernel<4>")
        self.assertLessEqual(max(map(len, narrow.splitlines())), 60)

    def check_hardware_counters(self, rank):
        """The samples of captures/2/rank-1.xrs: 100 us each, without gaps, within the capture."""
        told = rank["sampling"]
        self.assertEqual((told["status"], told["file"], told["reason"], told["overflows"]),
                         ("complete", "rank-1.xrs", "", 0))
        self.assertEqual([r["resource"] for r in told["resources"]], ["sm", "tensor", "dram", "nvlink_rx", "pcie"])
        self.assertIn(" + ", told["resources"][3]["metric"])  # request and response
        self.assertEqual(told["resources"][4]["metric"], "pcie__throughput.avg.pct_of_peak_sustained_elapsed")
        self.assertAlmostEqual(told["asked_s"], 100e-6)
        self.assertAlmostEqual(told["interval_s"], 100e-6)
        self.assertGreater(told["setup_s"], 0.06)
        self.assertGreaterEqual(told["begin_mono_ns"], rank["begin_mono_ns"] - 50e6)
        self.assertAlmostEqual(told["seconds"], rank["seconds"], delta=0.2)
        means = {r["resource"]: (r["mean"], r["spread"]) for r in told["resources"]}
        self.assertAlmostEqual(means["sm"][0], 0.8, delta=0.01)
        self.assertAlmostEqual(means["tensor"][0], 0.97 * 0.6, delta=0.01)
        self.assertAlmostEqual(means["nvlink_rx"][0], 1e11 * 0.3, delta=1e9)
        self.assertGreater(means["tensor"][1], 0.4)
        samples = event_file.resources(self.out / "captures/2/rank-1.xrs")["samples"]
        self.assertEqual(len(samples), told["samples"])
        self.assertTrue(all(b["begin_ns"] == a["begin_ns"] + a["duration_ns"] for a, b in zip(samples, samples[1:])))
        self.assertEqual({s["duration_ns"] for s in samples}, {100_000})

    def test_the_critical_path_of_python(self):
        process = self.start()

        def path_is_idle_time():
            told = json.loads(self.capture("--duration", "2s", "--json"))
            paths = [f["path"] for f in told["functions"] if f["own"] > 0 and f["path"] >= 0]
            busy = [rank["busy_share"] for rank in told["gpu"]["ranks"]]
            return paths and abs(sum(paths) - (1 - sum(busy) / len(busy))) < 0.2

        # Each sample lies in one function, and 100 samples show an idle share of 20 % to 4 %. On a busy machine the
        # process that samples may begin late, so that few samples are left.
        self.wait_for(path_is_idle_time, "path as large as the idle time of the GPU")
        self.end(process)
        self.assertIn("\n   PATH    OWN  TOTAL", self.run_xpurun("analyze", self.out, out=False).stdout)

    def test_problems_of_the_hardware_counters_are_said_and_spoil_nothing(self):
        for mode, status, said in (
            ("busy", "busy", "no hardware counters: another process reads those of this GPU"),
            ("privileges", "no_permission", "no hardware counters: the driver allows them to the superuser only"),
            ("mig", "not_supported", "no hardware counters: CUPTI does not sample this GPU here (CUPTI error 43 of "
                                     "cuptiPmSamplingGetCounterAvailability)"),
            ("metrics", "no_metrics", "no hardware counters: this GPU gives none of the known ones"),
            ("config", "refused", "no hardware counters: CUPTI error 999 of cuptiPmSamplingSetConfig"),
            ("start", "refused", "no hardware counters: CUPTI error 7 of cuptiPmSamplingStart"),
            ("decode", "refused", "the hardware counters end early: CUPTI error 999 of cuptiPmSamplingDecodeData"),
            ("overflow", "overflow", "the buffer of the hardware counters was full at times"),
            ("clock", "failed", "no hardware counters: another CUPTI client changed CUPTI's clock"),
            ("off", "off", "no hardware counters: switched off by XPURUN_PM_SAMPLING=0"),
            ("old", "no_functions", "no hardware counters: this CUPTI is older than that of CUDA 12.6"),
        ):
            with self.subTest(mode):
                self.out = self.dir / mode
                env = {"FAKE_PM": mode}
                if mode == "off":
                    env["XPURUN_PM_SAMPLING"] = "0"
                elif mode == "old":
                    place = self.dir / "without"
                    place.mkdir()
                    (place / "libcupti.so.13").symlink_to(f"{BUILD}/tests/fakes/libcupti_before_12_6.so")
                    env["LD_PRELOAD"] = str(place / "libcupti.so.13")
                process = self.start(**env)
                text = self.capture("--duration", "500ms", columns="250")
                self.assertIn(f"Ranks 0-1: {said}", " ".join(text.split()))
                self.assertRegex(text, r"(?m)^ *\d+\.\d% +\d+\.\d% +\d+ +600\.0 us .* my_kernel<4>$")
                gpu = json.loads((self.out / "captures/1/gpu.json").read_text())
                self.assertEqual([(r["status"], r["sampling"]["status"]) for r in gpu["ranks"]],
                                 [("complete", status)] * 2)
                self.assertTrue(all(r["seconds"] > 0.45 for r in gpu["ranks"]))
                if mode in ("decode", "overflow"):
                    self.assertRegex(text, r"(?m)^tensor pipe +97\.0 %")
                else:
                    self.assertNotIn("RESOURCE", text)
                self.end(process)
                (self.dir / "end").unlink()

    def check_time_line(self, file, kernels):
        self.run_xpurun("timeline", "--format", "chrome", "-o", self.dir / "json", self.out / "captures/2", out=False)
        trace = json.loads((self.dir / "json/rank-1.json").read_text())["traceEvents"]
        shown = [e for e in trace if e.get("name") == "my_kernel<4>"]
        self.assertEqual(len(shown), len(kernels))
        launches = {e["args"].get("correlation") for e in trace if e.get("name") == "cudaLaunchKernel"}
        self.assertLessEqual({e["args"]["correlation"] for e in shown}, launches)
        self.run_xpurun("timeline", "-o", self.dir / "t", self.out, out=False)
        self.assertIn(b"captured stream 7", (self.dir / "t").read_bytes())
        self.assertIn(b"GPU queue (capture)", (self.dir / "t").read_bytes())
        tensor = [e["args"] for e in trace if e.get("ph") == "C" and e.get("name") == "tensor pipe"]
        self.assertAlmostEqual(max(v for args in tensor for v in args.values()), 97, delta=0.01)
        asked = self.run_xpurun("query", "--format", "json",
                                "SELECT count(*) AS n, max(value) AS most FROM counters WHERE name = 'NVLink received'",
                                self.out, out=False)
        told = json.loads(asked.stdout)
        self.assertGreater(told["n"], 1000)
        self.assertAlmostEqual(told["most"], 100, delta=0.01)

    def test_what_cupti_cannot_do_is_said_and_the_timed_calls_are_traced(self):
        for mode, said, status in (
            ("busy", "Ranks 0-1: not recorded: another CUPTI client (torch.profiler, Nsight Systems) is active",
             "other_client"),
            ("old", "Ranks 0-1: not recorded: this CUPTI is older than that of CUDA 12.0", "unknown_version"),
            ("refuses", "Ranks 0-1: not recorded: CUPTI error 35", "refused"),
        ):
            with self.subTest(mode):
                self.out = self.dir / mode
                process = self.start(FAKE_CUPTI=mode)
                text = self.capture("--duration", "1s", columns="200")
                self.assertIn(said, text)
                gpu = json.loads((self.out / "captures/1/gpu.json").read_text())
                self.assertEqual([(r["status"], r["file"]) for r in gpu["ranks"]], [(status, "")] * 2)
                self.wait_for(lambda: (self.out / "traces/1-capture-1/trace.json").exists(), "the trace")
                self.end(process)
                (self.dir / "end").unlink()

    def test_a_client_that_comes_is_left_alone(self):
        process = self.start(FAKE_CUPTI="comes")
        gpu = json.loads(self.capture("--duration", "300ms", "--json"))["gpu"]
        self.assertEqual([r["status"] for r in gpu["ranks"]], ["client_came"] * 2)
        self.end(process)

    def test_ranks_that_end_during_a_capture_end_well(self):
        process = self.start(FAKE_PM_STARTED=self.dir / "sampling")
        capture = subprocess.Popen([PROGRAM, "capture", "--run", str(self.out), "--duration", "30s"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.wait_for(lambda: len(list(self.dir.glob("sampling.*"))) == 2, "hardware counters of both ranks")
            self.end(process)
        finally:
            capture.wait(60)
        self.assertEqual(self.verdict()["kind"], "none")  # the shell's status says nothing of a rank

    def test_ranks_that_end_while_a_capture_is_set_up_end_well(self):
        process = self.start(FAKE_PM="slow", FAKE_PM_STARTED=self.dir / "sampling")
        capture = subprocess.Popen([PROGRAM, "capture", "--run", str(self.out), "--duration", "30s"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.wait_for(lambda: len(list(self.dir.glob("sampling-setup.*"))) == 2, "the set-up on both ranks")
            self.end(process)
        finally:
            capture.wait(60)
        self.assertEqual(self.verdict()["kind"], "none")  # the shell's status says nothing of a rank

    def test_dropped_records_are_counted(self):
        process = self.start(FAKE_CUPTI="drops")
        gpu = json.loads(self.capture("--duration", "300ms", "--json"))["gpu"]
        self.assertEqual([(r["status"], r["lost"] % 3, r["lost"] > 0) for r in gpu["ranks"]], [("lossy", 0, True)] * 2)
        self.end(process)

    def test_nothing_is_loaded_before(self):
        process = self.start()
        ranks = self.wait_for(lambda: len(self.rank_pids()) == 2 and self.rank_pids(), "two ranks")
        for pid in ranks.values():
            with open(f"/proc/{pid}/maps") as maps:
                self.assertNotRegex(maps.read(), "libxpurun_cupti|libcupti")
        self.end(process)


if __name__ == "__main__":
    xpurun_test.main()
