"""The traces of xpurun timeline in the hands of others: recounted with the perfetto package's own descriptors, and
loaded by HolisticTraceAnalysis. Both come from PyPI, into virtual environments made here; skipped where PyPI is out of
reach."""

import collections
import json
import subprocess
import sys
import tarfile

import make_events
import xpurun_test
from xpurun_test import PROGRAM, SOURCE

RECOUNT = """
import collections, json, sys
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
trace = proto.Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
names, tracks, open_slices = collections.defaultdict(dict), {}, collections.defaultdict(list)
slices, flows, unknown, arguments = collections.Counter(), collections.Counter(), 0, collections.Counter()
counters = collections.defaultdict(list)
for packet in trace.packet:
    mine = names[packet.trusted_packet_sequence_id]
    data = packet.interned_data
    for kind, entries, field in (("name", data.event_names, "name"), ("category", data.event_categories, "name"),
                                 ("argument", data.debug_annotation_names, "name"),
                                 ("text", data.debug_annotation_string_values, "str")):
        for entry in entries:
            assert entry.iid and (kind, entry.iid) not in mine
            mine[kind, entry.iid] = getattr(entry, field)
    if packet.HasField("track_descriptor"):
        d = packet.track_descriptor
        assert d.uuid not in tracks and (not d.parent_uuid or d.parent_uuid in tracks)
        tracks[d.uuid] = d.process.process_name or d.name
        if d.HasField("counter"):
            assert d.counter.unit_name
            counters[d.name]
    if packet.HasField("track_event"):
        e = packet.track_event
        assert packet.sequence_flags & 2 and e.track_uuid in tracks
        if e.type == e.TYPE_COUNTER:
            assert e.HasField("double_counter_value")
            counters[tracks[e.track_uuid]].append(e.double_counter_value)
            continue
        if e.type == e.TYPE_SLICE_END:
            assert open_slices[e.track_uuid].pop() <= packet.timestamp
            continue
        if e.type == e.TYPE_SLICE_BEGIN:
            open_slices[e.track_uuid].append(packet.timestamp)
        slices[mine["name", e.name_iid]] += 1
        flows.update(e.flow_ids)
        for a in e.debug_annotations:
            value = mine["text", a.string_value_iid] if a.string_value_iid else a.int_value or a.double_value
            arguments[mine["argument", a.name_iid]] += 1
assert not any(open_slices.values())
print(json.dumps({"slices": slices, "flows": sorted(flows.values()), "arguments": arguments, "tracks": len(tracks),
                  "counters": counters}))
"""

ANALYSE = """
import json, sys, warnings
warnings.simplefilter("ignore")
from hta.trace_analysis import TraceAnalysis
a = TraceAnalysis(trace_dir=sys.argv[1])
breakdown = a.get_temporal_breakdown(visualize=False)
overlap = a.get_comm_comp_overlap(visualize=False)
kernels, _ = a.get_gpu_kernel_breakdown(visualize=False)
a.get_idle_time_breakdown(ranks=[0, 1], visualize=False)
a.get_cuda_kernel_launch_stats(visualize=False)
print(json.dumps({"breakdown": sorted(breakdown["rank"]), "overlap": sorted(overlap["rank"]),
                  "kernels": sorted(kernels["kernel_type"]),
                  "idle": list(breakdown["idle_time_pctg"]),
                  "stragglers": a.get_potential_stragglers(num_candidates=1)}))
"""


class InOtherHands(xpurun_test.Case):
    def setUp(self):
        super().setUp()
        self.run_dir = self.dir / "run"
        for rank in range(2):
            make_events.write_rank(self.run_dir / "ranks" / str(rank) / "events-1.xev", rank, 2,
                                   make_events.training_events(20, late_ns=rank * 100_000))
            make_events.write_marks(self.run_dir / "ranks" / str(rank) / "spans-1.xsp", rank, 20)

    def install(self, *packages):
        """The Python of a new virtual environment."""
        venv = self.dir / "venv"
        subprocess.run([sys.executable, "-m", "venv", venv], check=True, capture_output=True)
        done = subprocess.run([venv / "bin" / "pip", "install", "--quiet", *packages], capture_output=True, text=True,
                              timeout=600)
        if done.returncode != 0:
            self.skipTest(f"{packages} cannot be installed from PyPI: {done.stderr[-300:]}")
        return venv / "bin" / "python"

    def run_python(self, python, code, *args):
        done = subprocess.run([python, "-c", code, *map(str, args)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_recount_with_perfetto(self):
        python = self.install("perfetto==0.59.1")
        out = self.dir / "trace"
        subprocess.run([PROGRAM, "timeline", "--quiet", "-o", out, self.run_dir], check=True)
        got = json.loads(self.run_python(python, RECOUNT, out))
        self.assertEqual(got["slices"], {"cublasGemmEx": 40, "matmul 4096x4096x4096 bf16": 120,
                                         "matmul 4096x1024x4096 bf16": 120, "cudaMemcpyAsync H2D": 40,
                                         "AllReduce 32.0 MiB bf16": 40, "ReduceScatter 128 MiB bf16": 40, "mark": 40})
        # Every collective on both ranks; of each rank, 20 calls on the host and what they launched.
        self.assertEqual(collections.Counter(got["flows"]), {2: 40 + 40})
        self.assertEqual(got["arguments"]["TFLOP/s"], 240)
        self.assertEqual(got["arguments"]["bus_bandwidth_GB/s"], 80)
        self.assertEqual(got["arguments"]["algorithm"], 80)
        self.assertEqual(got["arguments"]["shape"], 240)
        self.assertEqual(got["tracks"], 2 * 6)
        self.assertEqual(got["counters"], {})

    def test_counters_with_perfetto(self):
        python = self.install("perfetto==0.59.1")
        trace = self.run_dir / "traces" / "1"
        trace.mkdir(parents=True)
        make_events.write_rank(trace / "rank-0.xev", 0, 2, make_events.training_events(20))
        out = self.dir / "trace"
        subprocess.run([PROGRAM, "timeline", "--quiet", "-o", out, trace], check=True)
        counters = json.loads(self.run_python(python, RECOUNT, out))["counters"]
        self.assertEqual(list(counters), ["GPU queue (trace)"])
        values = counters["GPU queue (trace)"]
        # Nine works a step, each launched some microseconds before its begin.
        self.assertEqual((set(values), values[-1]), ({0, 1}, 0))
        self.assertAlmostEqual(len(values), 20 * 9 * 2, delta=3)

    def analyse(self, python, run_dir):
        out = self.dir / f"json-{run_dir.name}"
        subprocess.run([PROGRAM, "timeline", "--quiet", "--format", "chrome", "-o", out, run_dir], check=True)
        got = json.loads(self.run_python(python, ANALYSE, out).splitlines()[-1])
        self.assertEqual((got["breakdown"], got["overlap"]), ([0, 1], [0, 1]))
        for kind in ("COMMUNICATION", "COMPUTATION"):
            self.assertTrue(any(kind in kernels for kernels in got["kernels"]), got)
        return got

    def test_holistic_trace_analysis(self):
        """Of two ranks, one may be a straggler: HolisticTraceAnalysis looks for two by default, and fails
        if an iteration has a collective of one rank only, as sampled calls have."""
        python = self.install("HolisticTraceAnalysis==0.5.0")
        # Rank 1 enters every reduce-scatter 0.1 ms late.
        self.assertEqual(self.analyse(python, self.run_dir)["stragglers"], [1])
        # Two H200 in a job of which no rank is slow.
        with tarfile.open(SOURCE / "tests" / "data" / "gpu_runs" / "nothing-slow.tar.xz") as recorded:
            recorded.extractall(self.dir)
        got = self.analyse(python, self.dir / "nothing-slow")
        self.assertIn(got["stragglers"], ([0], [1]))
        self.assertEqual(len(got["idle"]), 2)


if __name__ == "__main__":
    xpurun_test.main()
