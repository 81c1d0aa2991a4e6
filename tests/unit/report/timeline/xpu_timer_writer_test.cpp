#include "report/events/foreign/foreign_record.h"
#include "report/events/foreign/xpu_timer/matmuls.h"
#include "report/events/foreign/xpu_timer/trace.h"
#include "report/timeline/timeline.h"
#include "tests/unit/report/timeline/samples.h"

#include <algorithm>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <vector>

using namespace xpurun;
using namespace xpurun::report;

namespace {

struct Written {
  base::TemporaryDirectory dir = *base::TemporaryDirectory::create("xpurun-xpu-timer-test-");
  TimelineResult result;

  // Two ranks of a job; rank 0 has a collection of garbage and a call of a function.
  Written() {
    for (int rank = 0; rank < 2; ++rank) {
      put_file(path(fmt::format("run/ranks/{}/events-1.xev", rank)),
               sample_events({.rank = rank, .host = "node0"}));
    }
    model::SpanEncoder spans;
    spans.add({.begin_ns = 1'000'000,
               .duration_ns = 300'000,
               .stage = model::Stage::garbage,
               .name = spans.name("gc.collect(2)"),
               .thread = 7,
               .sequence = 12,
               .bytes = 345});
    spans.add({.begin_ns = 1'400'000,
               .duration_ns = 20'000,
               .stage = model::Stage::function,
               .name = spans.name("train:step"),
               .thread = 7});
    put_file(
        path("run/ranks/0/spans-1.xsp"),
        model::SpanEncoder::header({.rank = 0, .pid = 100, .host = "node0", .mono_ns = 0, .wall_ns = kWall}) +
            spans.take_block());
    auto made = make_timeline({path("run")}, {.format = TimelineFormat::xpu_timer, .out = path("out")});
    REQUIRE(made);
    result = std::move(*made);
  }
  std::string path(const std::string& name) const { return dir.path() + "/" + name; }
  std::string read(const std::string& name) const {
    const auto bytes = base::read_file(path("out/" + name));
    REQUIRE(bytes);
    return *bytes;
  }
};

}  // namespace

TEST_CASE("files of xpu_timer: one for each rank, with its names, and the matmuls of all") {
  const Written w;
  std::vector<std::string> names;
  for (const std::string& file : w.result.files) {
    names.push_back(file.substr(w.path("out/").size()));
  }
  CHECK(names == std::vector<std::string>{"00000-00002.timeline", "00000-00002.timeline.meta",
                                          "00001-00002.timeline", "00001-00002.timeline.meta",
                                          "matmul_dp2.bin"});
  CHECK(w.result.counts.slices == 14);
  REQUIRE(w.result.missing.size() == 1);
  CHECK(w.result.missing[0].starts_with("4 slices: "));
  const std::string meta = w.read("00000-00002.timeline.meta");
  CHECK(meta.find("xpu_timer_mm_bmnk_1_4096_1024_512\n") != std::string::npos);
  CHECK(meta.find("xpu_timer_host_trace,GC\nxpu_timer_host_trace,train:step\n") != std::string::npos);
}

TEST_CASE("files of xpu_timer: read again, they have the same calls at the same times") {
  const Written w;
  Activity a;
  REQUIRE(parse_xpu_timer_trace(a, w.read("00000-00002.timeline"), w.read("00000-00002.timeline.meta")));
  CHECK(a.pid == 100);
  std::map<std::string, int> calls;
  for (const Slice& slice : a.slices) {
    ++calls[a.calls[slice.call].name];
  }
  CHECK(calls == std::map<std::string, int>{{"AllReduce 2.0 MiB bf16", 2},
                                            {"GC", 1},
                                            {"cudaMemcpyAsync H2H", 2},
                                            {"mm_bmnk_1_4096_1024_512", 2},
                                            {"train:step", 1}});
  const auto reduce =
      std::find_if(a.slices.begin(), a.slices.end(), [&](const Slice& s) { return s.sequence == 2; });
  REQUIRE(reduce != a.slices.end());
  CHECK(reduce->begin_ns == kWall + 2'050'000);
  CHECK(reduce->duration_ns == 100'000);
  CHECK(reduce->delay_us == 4);
  CHECK(reduce->meeting != 0);
  CHECK(a.calls[reduce->call].work == 2'097'152);
}

TEST_CASE("files of xpu_timer: the throughput of matmuls by rank and problem") {
  const Written w;
  const std::string bytes = w.read("matmul_dp2.bin");
  std::map<int64_t, std::vector<double>> tflops;
  std::vector<uint32_t> shape;
  for (protozero::pbf_reader ranks(bytes); ranks.next(1);) {
    protozero::pbf_reader entry = ranks.get_message();
    REQUIRE(entry.next(1));
    const int64_t rank = entry.get_int64();
    REQUIRE(entry.next(2));
    for (protozero::pbf_reader infos = entry.get_message(); infos.next(1);) {
      protozero::pbf_reader info = infos.get_message();
      REQUIRE(info.next(1));
      protozero::pbf_reader details = info.get_message();
      REQUIRE(details.next(1));
      const auto numbers = details.get_packed_uint32();
      shape.assign(numbers.begin(), numbers.end());
      REQUIRE(info.next(2));
      for (const double one : info.get_packed_double()) {
        tflops[rank].push_back(one);
      }
    }
  }
  CHECK(shape == std::vector<uint32_t>{1, 4096, 1024, 512});
  // 2 GFLOP in 10 us.
  CHECK(tflops == std::map<int64_t, std::vector<double>>{{0, {200, 200}}, {1, {200, 200}}});
}

TEST_CASE("matmul_*.bin of xpu_timer: the matmuls of each rank with their durations") {
  const Written w;
  const std::string bytes = w.read("matmul_dp2.bin");
  const auto owners = owners_in_xpu_timer_matmuls(bytes);
  REQUIRE(owners.size() == 2);
  CHECK(owners[1].rank == 1);
  Activity a{.rank = 1};
  REQUIRE(parse_xpu_timer_matmuls(a, bytes));
  REQUIRE(a.slices.size() == 2);
  const Call& call = a.calls[a.slices[0].call];
  CHECK(call.key.m == 4096);
  CHECK(call.key.k == 512);
  // 2 x 4096 x 1024 x 512 FLOP, as the file has them from 2,000,000,000 FLOP in 10 us.
  CHECK(a.slices[0].duration_ns == 2LL * 4096 * 1024 * 512 / 200'000);
  CHECK(tflops_of(call, a.slices[0]) == doctest::Approx(200.0).epsilon(1e-3));
  RankRecord record;
  add_foreign(record, a);
  CHECK_FALSE(record.whole);
  for (size_t size = 0; size < bytes.size(); ++size) {
    Activity cut{.rank = 1};
    (void)parse_xpu_timer_matmuls(cut, bytes.substr(0, size));
    CHECK(cut.slices.size() <= 2);
  }
  const auto made = make_timeline({w.path("out/matmul_dp2.bin")}, {.out = w.path("again")});
  REQUIRE(made);
  CHECK(made->processes == 2);
  CHECK(made->counts.slices == 4);
}
