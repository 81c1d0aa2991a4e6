#include "common/base/os/io.h"
#include "common/base/packing.h"
#include "common/model/timing/op_names.h"
#include "report/events/foreign/nccl_inspector.h"
#include "report/events/foreign/nsys_export.h"
#include "report/events/foreign/operation_names.h"
#include "report/events/foreign/otlp_trace.h"
#include "report/events/foreign/torch_profiler.h"
#include "report/events/foreign/xpu_timer/trace.h"
#include "report/events/op_facts.h"
#include "report/timeline/timeline.h"
#include "tests/support/perfetto_text.h"
#include "tests/unit/report/timeline/samples.h"

#include <fmt/format.h>

#include <map>
#include <protozero/pbf_writer.hpp>
#include <sqlite3.h>
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
    CHECK(added.error().what.find(fill == 'a' ? "an event of more than 16 MiB" : "no list of events") !=
          std::string::npos);
  }
  Activity text;
  CHECK(add_torch_trace(
      text, packed_file("long", "{\"a\\\"," + std::string(1 << 20, ',') + "\": 1, \"traceEvents\": []}")));
}

TEST_CASE("Chrome's trace events of any program: lists, begins and ends, old and other kinds") {
  Activity a;
  constexpr std::string_view kList = R"json([
{"ph": "B", "name": "outer", "pid": "job", "tid": "main", "ts": 100, "args": {}},
{"ph": "B", "name": "inner \u00e9\n", "pid": "job", "tid": "main", "ts": 110},
{"ph": "E", "pid": "job", "tid": "main", "ts": 120.5},
{"ph": "E", "pid": "job", "tid": "main", "ts": 150},
{"ph": "X", "cat": "Kernel", "name": "old", "pid": 0, "tid": 7, "ts": 10, "dur": 5},
{"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 2, "ts": 1e1, "dur": 1},
{"ph": "X", "cat": "mtia_ccp_events", "name": "accelerator", "pid": 0, "tid": 3, "ts": 10, "dur": 5},
{"ph": "X", "cat": "mine", "name": "something", "pid": 0, "tid": 3, "ts": 10, "dur": 5},
])json";
  REQUIRE(parse(a, kList));
  CHECK(a.complete);
  std::map<std::string, std::pair<int64_t, Category>> told;
  for (const Slice& s : a.slices) {
    told[a.calls[s.call].name] = {s.duration_ns, a.calls[s.call].category};
  }
  using Told = std::pair<int64_t, Category>;
  CHECK(told.size() == 6);
  CHECK(told["outer"] == Told{50'000, Category::python});
  CHECK(told["old"] == Told{5'000, Category::kernel});
  CHECK(told["cudaLaunchKernel"] == Told{1'000, Category::host});
  CHECK(told["accelerator"] == Told{5'000, Category::kernel});
  CHECK(told["something"] == Told{5'000, Category::python});
  for (const Slice& s : a.slices) {
    CHECK((a.calls[s.call].name.find("inner") == std::string::npos || s.duration_ns == 10'500));
  }
}

TEST_CASE("Chrome's trace events: a wrong event is left out, counted and named, the others stay") {
  const auto event = [](std::string_view name, std::string_view rest) {
    return fmt::format(R"({{"ph": "X", "cat": "kernel", "name": "{}", "pid": 0, "tid": 7, {}}},)", name,
                       rest) +
           "\n";
  };
  const std::string good = R"("ts": 10, "dur": 5)";
  const std::string bad =
      event("no time", R"("ts": nan, "dur": 5)") + event("wrong end", R"("ts": 10, "dur": inf)") +
      event("negative", R"("ts": 10, "dur": -5)") + event("no length", R"("ts": 10)") +
      "17,\n{\"ph\" \"X\"},\n" + R"({"ph": "E", "name": "no begin", "pid": 1, "tid": 1, "ts": 5},)";
  const std::string odd =
      event("copy", good + R"x(, "args": {"memory bandwidth (GB/s)": inf, "bytes": 4096})x") +
      event("escape \\q \\u12", good) + event("byte \xff\xfe", good) + event("plain", good);
  Activity a;
  REQUIRE(parse(a, "{\"traceEvents\": [" + bad + odd + "], \"traceName\": \"x\"}"));
  REQUIRE(a.slices.size() == 4);
  CHECK_FALSE(a.complete);
  CHECK(a.damage == "7 events are left out: no time, wrong end, negative");
  CHECK(a.calls[a.slices[0].call].name == "copy");
  REQUIRE(a.extras[a.slices[0].extra].size() == 1);
  CHECK(a.extras[a.slices[0].extra][0].name == "bytes");
  CHECK(a.calls[a.slices[1].call].name == "escape \\q \\u12");
  CHECK(a.calls[a.slices[2].call].name.starts_with("byte "));
  CHECK(a.calls[a.slices[3].call].name == "plain");
}

TEST_CASE(
    "begins and ends: of two events with the same times, the one that was begun first is around the other") {
  const auto event = [](char phase, std::string_view name, int at) {
    return fmt::format(R"({{"ph": "{}", "name": "{}", "pid": 1, "tid": 1, "ts": {}}},)", phase, name, at);
  };
  Activity a;
  REQUIRE(parse(a, "[" + event('B', "outer", 5) + event('B', "inner", 5) + event('E', "inner", 9) +
                       event('E', "outer", 9) + event('B', "backwards", 9) + event('E', "backwards", 4) +
                       event('B', "no end", 10) + "]"));
  put_in_order(a, Equal::several);
  REQUIRE(a.slices.size() == 2);
  CHECK(a.calls[a.slices[0].call].name == "outer");
  CHECK(a.calls[a.slices[1].call].name == "inner");
  CHECK(a.slices[1].duration_ns == 4'000);
  CHECK(damage_of(a) == "2 events are left out: backwards, no end");
}

TEST_CASE("a trace with wrong events that is cut off too says both") {
  Activity a;
  REQUIRE(parse(a, R"({"traceEvents": [{"ph": "X", "name": "no time", "dur": 5}, {"ph": "X", "na)"));
  CHECK(damage_of(a) == "1 event is left out: no time; the end is missing or damaged");
}

TEST_CASE("the type of elements comes from the names of NCCL's kernels, old and new") {
  const auto type_of = [](std::string_view name) {
    model::EventKey key = key_of_category(Category::collective);
    CHECK(set_collective(key, name));
    return key.dtype[0] == model::kNoType ? "none" : model::nccl_type_name(key.dtype[0]);
  };
  CHECK(type_of("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)") == "bf16");
  CHECK(type_of("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)") == "fp32");
  CHECK(type_of("ncclKernel_AllReduce_RING_LL_Sum___nv_bfloat16(ncclWorkElem)") == "bf16");
  CHECK(type_of("ncclKernel_Reduce_RING_LL_Sum_uint8_t(ncclWorkElem)") == "uint8");
  CHECK(type_of("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)") == "none");
  CHECK(type_of("allreduce_float") == "none");
}

TEST_CASE("equal calls of one foreign file are no repetitions") {
  const auto dir = *base::TemporaryDirectory::create("xpurun-timeline-test-");
  const std::string query =
      R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaEventQuery", "pid": 1, "tid": 2, "ts": 5, "dur": 0},)";
  put_file(dir.path() + "/a.pt.trace.json", "{\"traceEvents\": [" + query + query + query + "]}");
  const auto made = make_timeline({dir.path()}, {.out = dir.path() + "/out"});
  REQUIRE(made);
  CHECK(made->counts.slices == 3);
}

TEST_CASE("all fields of xpu_timer's trace") {
  std::string bytes;
  protozero::pbf_writer w(bytes);
  const auto kernel = [&](uint32_t type, int details, auto&& write) {
    protozero::pbf_writer k(w, 1);
    k.add_uint32(1, type);
    k.add_uint64(3, kStartUs);
    k.add_uint32(4, 10);
    k.add_uint64(6, 17);
    protozero::pbf_writer d(k, static_cast<protozero::pbf_tag_type>(details));
    write(d);
  };
  const auto put_list = [](protozero::pbf_writer& d, int field, const std::vector<uint32_t>& numbers) {
    d.add_packed_uint32(static_cast<protozero::pbf_tag_type>(field), numbers.begin(), numbers.end());
  };
  kernel(0, 7, [&](protozero::pbf_writer& d) {
    const std::vector<int64_t> lds{100, 200, 300};
    d.add_packed_int64(4, lds.begin(), lds.end());
    d.add_packed_int64(5, lds.begin(), lds.end());
    d.add_int32(6, 42);
    d.add_string(7, "cublasLtMatmul");
  });
  kernel(0, 8, [&](protozero::pbf_writer& d) { put_list(d, 1, {4, 2048, 2048, 128}); });
  kernel(0, 12, [&](protozero::pbf_writer& d) {
    d.add_message(1, std::string());
    d.add_message(1, std::string());
    d.add_double(4, 3e9);
  });
  kernel(1, 9, [&](protozero::pbf_writer& d) {
    put_list(d, 1, {64, 1, 1});
    put_list(d, 2, {512, 1, 1});
    d.add_uint32(7, 4);
    d.add_uint64(9, 20'000'000);
    d.add_uint32(10, 2);
  });
  {
    protozero::pbf_writer h(w, 2);
    h.add_uint64(1, kStartUs);
    h.add_string(3, "GC");
    h.add_uint32(4, 5);
    protozero::pbf_writer g(h, 5);
    g.add_uint32(1, 300);
    g.add_uint32(2, 1);
  }
  Activity a;
  REQUIRE(parse_xpu_timer_trace(a, bytes, ""));
  REQUIRE(a.slices.size() == 5);
  std::vector<std::string> told;
  for (const Slice& s : a.slices) {
    std::string line;
    for (const Argument& one : a.extras[s.extra]) {
      line += fmt::format("{}={} ", one.name,
                          std::visit([](const auto& value) { return fmt::format("{}", value); }, one.value));
    }
    told.push_back(line);
  }
  CHECK(told[0] ==
        "count=17 leading_dimensions=100,200,300 strides=100,200,300 cublas_algorithm=42 "
        "function=cublasLtMatmul ");
  CHECK(told[1] == "count=17 attention=4,2048,2048,128 ");
  CHECK(told[2] == "count=17 groups=2 ");
  CHECK(tflops_of(a.calls[a.slices[2].call], a.slices[2]) == doctest::Approx(300));
  CHECK(told[3] ==
        "count=17 grid=64,1,1 block=512,1,1 nodes=4 problem_size=20000000 direction=receive "
        "bandwidth_GB/s=2000 ");
  CHECK(told[4] == "count=5 collected=300 uncollectable=1 ");
  CHECK(a.calls[a.slices[4].call].stage == model::Stage::garbage);
}

TEST_CASE("an export of nsys is a process with its streams and threads") {
  const auto dir = *base::TemporaryDirectory::create("xpurun-timeline-test-");
  const std::string path = dir.path() + "/report_rank3.sqlite";
  sqlite3* handle = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &handle) == SQLITE_OK);
  constexpr const char* kTables = R"sql(
    CREATE TABLE StringIds (id INTEGER, value TEXT);
    INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'), (3, 'cudaLaunchKernel');
    CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT);
    INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1795230915000000000, '');
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, streamId, correlationId, demangledName);
    INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2000, 5000, 7, 11, 1), (6000, 9000, 20, 12, 2), (9, 1, 7, 13, 1), (NULL, 7, 7, 13, 2), ('x', 7, 7, 13, 2);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end, streamId, correlationId, bytes);
    INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (100, 200, 7, 14, 4096);
    CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, streamId, correlationId, graphId);
    INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (300, 400, 7, 15, 1);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId);
    INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000, 1500, 281474976710656 + 77 * 16777216 + 78, 11, 3);
    CREATE TABLE NVTX_EVENTS (start, end, globalTid, text, textId);
    INSERT INTO NVTX_EVENTS VALUES (500, 9500, 78, 'step', NULL), (600, NULL, 78, 'mark', NULL);
  )sql";
  REQUIRE(sqlite3_exec(handle, kTables, nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(handle);
  CHECK(owner_of_nsys_export(path)->rank == 3);
  Activity a;
  REQUIRE(add_nsys_export(a, path));
  // One ends before it begins, two have no begin.
  CHECK(damage_of(a) ==
        "3 events are left out: gemm, ncclDevKernel_AllReduce_Sum_f32_RING_LL, "
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
  CHECK(a.pid == 77);
  std::map<std::string, const Slice*> found;
  for (const Slice& s : a.slices) {
    found[a.calls[s.call].name] = &s;
  }
  REQUIRE(found.size() == 6);
  CHECK(a.calls[found["CUDA graph"]->call].category == Category::graph);
  CHECK(found["gemm"]->begin_ns == kWall + 2'000);
  CHECK(found["gemm"]->launch == found["cudaLaunchKernel"]->launch);
  CHECK(a.tracks[found["gemm"]->track].number == 7);
  CHECK(a.tracks[found["cudaLaunchKernel"]->track].number == 78);
  CHECK(a.calls[found["Memcpy"]->call].work == 4096);
  CHECK(found["step"]->duration_ns == 9'000);
  const auto made = make_timeline({dir.path()}, {.out = dir.path() + "/out"});
  REQUIRE(made);
  CHECK(made->counts.slices == 6);
  // Before there were texts by number.
  REQUIRE(sqlite3_open(path.c_str(), &handle) == SQLITE_OK);
  REQUIRE(sqlite3_exec(handle, "ALTER TABLE NVTX_EVENTS DROP COLUMN textId", nullptr, nullptr, nullptr) ==
          SQLITE_OK);
  sqlite3_close(handle);
  Activity older;
  REQUIRE(add_nsys_export(older, path));
  CHECK(older.slices.size() == 6);
  put_file(dir.path() + "/other.sqlite", "no database");
  Activity none;
  CHECK_FALSE(add_nsys_export(none, dir.path() + "/other.sqlite"));
}

TEST_CASE("a log of NCCL's inspector plug-in") {
  const auto line = [](int rank, int number, std::string_view more) {
    return fmt::format(
        R"({{"header": {{"id": "0xab", "rank": {}, "n_ranks": 8, "nnodes": 1}}, "metadata": )"
        R"({{"dump_timestamp_us": {}, "hostname": "h1", "pid": 55}}, "coll_perf": {{"coll": "AllReduce", "coll_sn": {}, )"
        R"("coll_msg_size_bytes": 8000000, "coll_exec_time_us": 100{}}}}})"
        "\n",
        rank, kStartUs + 500, number, more);
  };
  Activity a;
  REQUIRE(parse_inspector_log(
      a, line(2, 4, "") + "garbage\n" +
             line(2, 5,
                  fmt::format(R"(, "event_trace_ts": {{"coll_start_ts": 1, "kernel_events": [)"
                              R"({{"kernel_start_ts": {}}}, {{"kernel_start_ts": {}}}]}})",
                              kStartUs + 30, kStartUs + 20))));
  REQUIRE(a.slices.size() == 2);
  CHECK(damage_of(a) == "1 event is left out: garbage");
  CHECK(a.host == "h1");
  CHECK(a.slices[0].begin_ns == static_cast<int64_t>(kStartUs + 400) * 1'000);
  CHECK(a.slices[1].begin_ns == static_cast<int64_t>(kStartUs + 20) * 1'000);
  CHECK(a.slices[0].meeting == meeting_of(0xab, 8, 4));
  // 2 * 7/8 * 8 MB in 100 us.
  CHECK(bus_gb_per_s(a.calls[a.slices[0].call], a.slices[0]) == doctest::Approx(140));
  CHECK_FALSE(parse_inspector_log(a, "{}\n"));

  // A send, in a packed log.
  const std::string send = fmt::format(
      R"({{"header": {{"id": "0xab", "comm_name": "PP", "rank": 2, "n_ranks": 8, "nnodes": 1}}, "metadata": )"
      R"({{"dump_timestamp_us": {}, "hostname": "h1", "pid": 55}}, "p2p_perf": {{"p2p": "Send", "p2p_sn": 6, )"
      R"("p2p_peer": 3, "p2p_msg_size_bytes": 4096, "p2p_exec_time_us": 10}}}})",
      kStartUs + 500);
  const auto dir = *base::TemporaryDirectory::create("xpurun-timeline-test-");
  const std::string path = dir.path() + "/inspector.jsonl.gz";
  REQUIRE(base::write_file_atomic(path, base::gzip(send + "\n")));
  CHECK(owner_of_inspector_log(path)->rank == 2);
  Activity sent;
  REQUIRE(add_inspector_log(sent, path));
  REQUIRE(sent.slices.size() == 1);
  CHECK(sent.complete);
  CHECK(sent.slices[0].meeting == 0);
  CHECK(sent.slices[0].duration_ns == 10'000);
  CHECK(sent.calls[0].message);
  CHECK(sent.calls[0].key.peer == 3);
  CHECK(sent.communicators[0].name == "PP");
  const auto made = make_timeline({path}, {.out = dir.path() + "/out"});
  REQUIRE(made);
  CHECK(made->counts.slices == 1);
}

TEST_CASE("spans of OpenTelemetry") {
  constexpr std::string_view kSpan =
      R"({"resourceSpans": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "trainer"}}]}, )"
      R"("scopeSpans": [{"spans": [{"name": "step", "startTimeUnixNano": "1795230915000000000", )"
      R"("endTimeUnixNano": 1795230915000005000, "attributes": [{"key": "n", "value": {"intValue": "7"}}]}, )"
      R"({"name": "bad", "startTimeUnixNano": "x"}]}]}]})";
  Activity a;
  REQUIRE(parse_otlp_trace(a, kSpan));
  REQUIRE(a.slices.size() == 1);
  CHECK(damage_of(a) == "1 event is left out: bad");
  CHECK(a.slices[0].begin_ns == kWall);
  CHECK(a.slices[0].duration_ns == 5'000);
  CHECK(a.tracks[a.slices[0].track].name == "trainer");
  CHECK(a.extras[a.slices[0].extra].at(0).name == "n");
  Activity lines;
  REQUIRE(parse_otlp_trace(lines, std::string(kSpan) + "\n" + std::string(kSpan) + "\n"));
  CHECK(lines.slices.size() == 2);
  // The name of OpenTelemetry before 1.15; and a line that was cut.
  std::string old(kSpan);
  old.replace(old.find("scopeSpans"), 10, "instrumentationLibrarySpans");
  Activity before;
  REQUIRE(parse_otlp_trace(before, old + "\n{\"resourceSp"));
  CHECK(before.slices.size() == 1);
  CHECK(damage_of(before) == "2 events are left out: bad, {\"resourceSp");
  for (const char* wrong :
       {"", "[]", "3", "{\"resourceSpans\": 3}", "{\"resourceSpans\": [3, {\"scopeSpans\": [{}]}]}"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_otlp_trace(a, wrong));
  }
}
