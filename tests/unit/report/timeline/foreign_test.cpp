#include "common/base/os/io.h"
#include "common/base/packing.h"
#include "report/events/foreign/torch_profiler.h"
#include "report/events/foreign/xpu_timer_trace.h"
#include "report/timeline/timeline.h"
#include "tests/support/perfetto_text.h"
#include "tests/unit/report/timeline/samples.h"

#include <fmt/format.h>

#include <protozero/pbf_writer.hpp>
#include <sstream>

using namespace xpurun;
using namespace xpurun::report;

namespace {

constexpr uint64_t kStartUs = 1'795'230'915'000'000;

// A matmul, an all-reduce with the sequence number 9, a copy and a garbage collection.
std::string xpu_timer_sample() {
  std::string out;
  protozero::pbf_writer w(out);
  const auto kernel = [&](uint32_t type, uint32_t code, uint64_t start, auto&& debug) {
    protozero::pbf_writer k(w, 1);
    k.add_uint32(1, type);
    k.add_uint32(2, code);
    k.add_uint64(3, start);
    k.add_uint32(4, 10);
    k.add_uint32(5, 3);
    debug(k);
  };
  kernel(0, 1, kStartUs, [](protozero::pbf_writer& k) {
    protozero::pbf_writer d(k, 7);
    const std::vector<uint32_t> shapes{1, 100, 100, 1000};
    d.add_packed_uint32(1, shapes.begin(), shapes.end());
    d.add_string(2, "bf16");
    d.add_string(3, "NT");
  });
  kernel(1, 2, kStartUs + 20, [](protozero::pbf_writer& k) {
    protozero::pbf_writer d(k, 9);
    d.add_uint64(3, 0xabc);
    d.add_uint64(4, 4096);
    d.add_uint32(6, 2);
    d.add_uint64(8, 9);
  });
  kernel(2, 7, kStartUs + 40, [](protozero::pbf_writer& k) {
    protozero::pbf_writer d(k, 10);
    d.add_uint64(1, 512);
    d.add_string(2, "H2D");
  });
  {
    protozero::pbf_writer h(w, 2);
    h.add_uint64(1, kStartUs + 5);
    h.add_uint32(2, 100);
    h.add_string(3, "GC\x1b[0m");
  }
  w.add_uint32(3, 4242);
  w.add_uint32(4, 1);
  return out;
}

constexpr std::string_view kMeta =
    "1,xpu_timer_mm_bmnk_1_100_100_1000\n2,xpu_timer_AllReduce\nxpu_timer_host_trace,GC\nbroken\n";

constexpr std::string_view kTorch = R"json({
"schemaVersion": 1, "baseTimeNanoseconds": 1795230915000000000,
"distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 4},
"traceEvents": [
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 77, "tid": 78, "ts": 1.250, "dur": 2,
 "args": {"correlation": 5, "nested": {"name": "not this"}}},
{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10, "dur": 3.5,
 "args": {"correlation": 5, "grid": [1, 2, 3], "stream": 7}},
{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
 "pid": 0, "tid": 20, "ts": 12, "dur": 30, "args": {"Collective name": "allreduce", "In msg nelems": 1024}},
{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 77, "tid": 78, "ts": 0, "dur": 100},
{"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "x", "ts": 0, "dur": 100},
{"ph": "X", "cat": "kernel", "name": "endless", "pid": 0, "tid": 7, "ts": 1, "dur": -5},
{"ph": "s", "id": 5, "cat": "ac2g", "name": "ac2g", "pid": 77, "tid": 78, "ts": 1}
], "traceName": "x"})json";

base::Status parse(Activity& out, std::string_view json) {
  std::istringstream text{std::string(json)};
  return parse_torch_trace(out, text);
}

// A trace file of this text, packed.
std::string packed_file(const std::string& name, const std::string& text) {
  const std::string path = name + ".json.gz";
  REQUIRE(base::write_file_atomic(path, base::gzip(text)));
  return path;
}

}  // namespace

TEST_CASE("xpu_timer's trace") {
  Activity a;
  REQUIRE(parse_xpu_timer_trace(a, xpu_timer_sample(), kMeta));
  REQUIRE(a.slices.size() == 4);
  CHECK(a.pid == 4242);
  CHECK(a.calls[a.slices[0].call].name == "mm_bmnk_1_100_100_1000");
  CHECK(tflops_of(a.calls[a.slices[0].call], a.slices[0]) == doctest::Approx(2.0));
  CHECK(a.slices[0].begin_ns == static_cast<int64_t>(kStartUs) * 1'000);
  CHECK(a.slices[1].sequence == 9);
  CHECK(a.slices[1].meeting != 0);
  CHECK(a.calls[a.slices[2].call].name == "kernel 7");
  CHECK(a.calls[a.slices[3].call].name.find('\x1b') == std::string::npos);
}

TEST_CASE("a truncated trace of xpu_timer is kept up to the damage") {
  const std::string whole = xpu_timer_sample();
  for (size_t size = 0; size < whole.size(); ++size) {
    Activity a;
    (void)parse_xpu_timer_trace(a, std::string_view(whole).substr(0, size), "");
    CHECK(a.slices.size() <= 4);
  }
  Activity a;
  CHECK_FALSE(parse_xpu_timer_trace(a, whole.substr(0, whole.size() - 1), ""));
  CHECK(a.slices.size() == 4);
}

TEST_CASE("torch.profiler's trace") {
  Activity a;
  REQUIRE(parse(a, kTorch));
  REQUIRE(a.slices.size() == 4);
  CHECK_FALSE(a.complete);  // one event has a negative duration
  CHECK(a.slices[0].begin_ns == kWall + 1'250);
  CHECK(a.calls[a.slices[0].call].name == "cudaLaunchKernel");
  CHECK(a.slices[0].launch == a.slices[1].launch);
  CHECK(a.slices[1].duration_ns == 3'500);
  CHECK(a.calls[a.slices[2].call].category == Category::collective);
  CHECK(a.extras[a.slices[2].extra].size() == 2);
  CHECK(a.calls[a.slices[3].call].category == Category::python);
  CHECK(a.pid == 77);
}

TEST_CASE("a trace of torch.profiler names its host, and one without ranks its process") {
  const std::string path = "h100_0_4711.1795230915000000000.pt.trace.json";
  REQUIRE(base::write_file_atomic(path, "{}"));
  const auto owner = owner_of_torch_file(path);
  REQUIRE(owner);
  CHECK(owner->rank == base::kNoRank);
  CHECK(owner->host == "h100_0");
  CHECK(owner->pid == 4711);
}

TEST_CASE("JSON without events, and JSON that is cut") {
  Activity a;
  CHECK_FALSE(parse(a, "{}"));
  CHECK_FALSE(parse(a, ""));
  CHECK_FALSE(parse(a, "[1, 2]"));
  a.complete = true;
  CHECK(parse(a, kTorch.substr(0, kTorch.find("ProfilerStep"))));
  CHECK(a.slices.size() == 3);
  CHECK_FALSE(a.complete);
}

TEST_CASE("foreign traces stand beside ours") {
  const auto dir = *base::TemporaryDirectory::create("xpurun-timeline-test-");
  const auto path = [&](const char* name) { return dir.path() + "/" + name; };
  put_file(path("run/ranks/1/events-1.xev"), sample_events({.rank = 1, .host = "node1"}));
  put_file(path("00001-00002.timeline"), xpu_timer_sample());
  put_file(path("00001-00002.timeline.meta"), kMeta);
  put_file(path("node_3.pt.trace.json.gz"), base::gzip(kTorch));
  put_file(path("other.json"), "{}");
  TimelineOptions options;
  options.out = path("out");
  const auto result = make_timeline({dir.path()}, options);
  REQUIRE(result);
  CHECK(result->processes == 3);
  CHECK(result->counts.slices == 16);
  CHECK(result->problems.size() == 1);  // the negative duration
  const std::string text = testing::PerfettoText::of(*base::read_file(path("out")));
  CHECK(text.find("track rank 1, xpu_timer\n") != std::string::npos);
  CHECK(text.find("track rank 3, torch.profiler\n") != std::string::npos);
  CHECK(text.find("track rank 1, node1, H200\n") != std::string::npos);
  CHECK_FALSE(make_timeline({path("other.json")}, options));
}

TEST_CASE("a packed trace is read in pieces, plain or packed, and up to its damage") {
  const std::string path = packed_file("packed", std::string(kTorch));
  const auto owner = owner_of_torch_file(path);
  REQUIRE(owner);
  CHECK(owner->rank == 3);
  Activity a;
  CHECK(add_torch_trace(a, path));
  CHECK(a.slices.size() == 4);
  // Many events, so that the text is longer than what zlib gives at once; cut off in the middle.
  std::string events = "{\"traceEvents\": [";
  for (int i = 0; i < 20'000; ++i) {
    events += fmt::format(
        R"({{"ph": "X", "cat": "kernel", "name": "k{}", "pid": 0, "tid": 7, "ts": {}, "dur": 3}},)", i * i,
        i);
  }
  const std::string packed = base::gzip(events + "{}]}");
  REQUIRE(base::write_file_atomic("cut.json.gz", std::string_view(packed).substr(0, packed.size() / 2)));
  Activity cut;
  CHECK(add_torch_trace(cut, "cut.json.gz"));
  CHECK(cut.slices.size() > 5'000);
  CHECK(cut.slices.size() < 20'000);
  CHECK_FALSE(cut.complete);
}

TEST_CASE("a text that grows without end is refused before it fills the memory") {
  for (const char fill : {'a', ' '}) {
    CAPTURE(fill);
    const std::string endless(size_t{20} << 20, fill);
    const std::string quote = fill == ' ' ? "" : "\"";
    Activity a;
    const auto added =
        add_torch_trace(a, packed_file("bomb", "{" + quote + endless + quote + "traceEvents\": []}"));
    REQUIRE_FALSE(added);
    CHECK(added.error().what.ends_with("a text or blank space of more than 16 MiB"));
  }
  Activity text;
  CHECK(add_torch_trace(
      text, packed_file("long", "{\"a\\\"," + std::string(1 << 20, ',') + "\": 1, \"traceEvents\": []}")));
}
