// When calls of GPU work lack times, and what traces say of missing calls.
#include "report/timeline/coverage/recorded_calls.h"
#include "report/timeline/inputs.h"
#include "report/timeline/timeline.h"
#include "report/timeline/untimed_calls.h"
#include "tests/unit/report/timeline/samples.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

using namespace xpurun;
using namespace xpurun::report;

namespace {

constexpr int64_t kEver = std::numeric_limits<int64_t>::max();

// Numbers and times of the calls of a kernel, a call a microsecond before its work.
std::string kernels(const std::vector<std::pair<uint32_t, uint64_t>>& calls, uint32_t entry) {
  model::EventEncoder encoder;
  model::EventKey key = key_of(wire::Api::cublasGemmEx);
  key.op_class = static_cast<uint8_t>(wire::OpClass::kernel);
  key.k = entry;
  encoder.define(entry, key, 0);
  for (const auto& [number, us] : calls) {
    encoder.add({.begin_ns = (us + 1) * 1'000,
                 .duration_ns = 500,
                 .op = entry,
                 .sequence = number,
                 .delay_us = 1,
                 .source = 1});
  }
  return model::EventEncoder::header({.rank = 0, .pid = 100, .host = "node0", .wall_ns = kWall}) +
         encoder.take_block();
}

class Rank {
 public:
  void put(const std::string& name, const std::vector<std::pair<uint32_t, uint64_t>>& calls,
           uint32_t entry = 4) {
    put_file(dir_.path() + "/" + name, kernels(calls, entry));
  }
  void put_text(const std::string& name, std::string_view text) { put_file(dir_.path() + "/" + name, text); }
  // In us.
  std::vector<Period> untimed() const {
    std::vector<base::Error> problems;
    const TraceInputs inputs = find_inputs({dir_.path()});
    REQUIRE(inputs.sources.size() == 1);
    std::vector<Period> out = read_source(inputs.sources[0], problems).untimed;
    for (Period& p : out) {
      p.begin_ns = p.begin_ns == -kEver ? p.begin_ns : (p.begin_ns - kWall) / 1'000;
      p.end_ns = p.end_ns == kEver ? p.end_ns : (p.end_ns - kWall) / 1'000;
    }
    return out;
  }

 private:
  base::TemporaryDirectory dir_ = *base::TemporaryDirectory::create("xpurun-coverage-test-");
};

}  // namespace

TEST_CASE("numbers of calls that follow each other leave no call untimed") {
  Rank rank;
  rank.put("ranks/0/events-1.xev", {{1, 10}, {2, 20}});
  rank.put("ranks/0/events-2.xev", {{4, 40}, {3, 30}});  // ended in another order
  CHECK(rank.untimed().empty());
}

TEST_CASE("missing numbers show when calls were not timed") {
  Rank rank;
  rank.put("ranks/0/events-1.xev", {{5, 10}, {6, 20}, {9, 50}, {10, 60}});
  // Where numbers are missing before the last call, they may be missing behind it, too.
  CHECK(rank.untimed() == std::vector<Period>{{-kEver, 10}, {20, 50}, {60, kEver}});
}

TEST_CASE("a trace times all calls") {
  Rank rank;
  rank.put("ranks/0/events-1.xev", {{8, 10}, {16, 20}, {17, 110}, {18, 200}, {19, 300}, {32, 900}});
  // Another kernel, of which the trace does not tell when it was called.
  rank.put("ranks/0/events-2.xev", {{1, 5}, {9, 1'000}}, 5);
  rank.put("traces/1/rank-0.xev", {{17, 110}, {18, 200}, {19, 300}});
  const auto trace = [](std::string_view kinds, int count) {
    return fmt::format(R"({{"schema": "xpurun.trace/1", "kinds": [{}], "count": {},
                           "ranks": [{{"rank": 0, "events": 3, "file": "rank-0.xev"}}]}})",
                       kinds, count);
  };
  constexpr std::string_view kAll = R"("matmul", "collective", "memory")";
  rank.put_text("traces/1/trace.json", trace(kAll, 100));
  CHECK(rank.untimed() == std::vector<Period>{{-kEver, 110}, {300, kEver}});
  // The last calls of a trace that is full may be missing.
  rank.put_text("traces/1/trace.json", trace(kAll, 3));
  CHECK(rank.untimed() == std::vector<Period>{{-kEver, 110}, {290, kEver}});
  rank.put_text("traces/1/trace.json", trace(R"("matmul")", 100));
  CHECK(rank.untimed() == std::vector<Period>{{-kEver, kEver}});
}

TEST_CASE("where no kernel is timed, work is missing") {
  const base::TemporaryDirectory dir = *base::TemporaryDirectory::create("xpurun-coverage-test-");
  put_file(dir.path() + "/ranks/0/events-1.xev", sample_events({}));
  std::vector<base::Error> problems;
  const Activity rank = read_source(find_inputs({dir.path()}).sources.at(0), problems);
  CHECK(rank.untimed == std::vector<Period>{{-kEver, kEver}});
}

TEST_CASE("a time line says what its traces do not hold") {
  const base::TemporaryDirectory dir = *base::TemporaryDirectory::create("xpurun-coverage-test-");
  const auto path = [&](const std::string& name) { return dir.path() + "/" + name; };
  put_file(path("traces/1-x/rank-0.xev"), sample_events({}));
  put_file(path("traces/1-x/trace.json"),
           R"({"schema": "xpurun.trace/1", "ended": "timeout", "count": 100, "ranks": [
               {"rank": 0, "events": 100, "file": "rank-0.xev"},
               {"rank": 1, "events": 0, "problem": "0 of 100 calls in 60 s"},
               {"rank": 2, "events": 0, "problem": "0 of 100 calls in 60 s"}]})");
  put_file(path("run.json"),
           R"({"schema": "xpurun.run/1", "processes": [{"pid": 1, "rank": 0}, {"pid": 2, "rank": 7}]})");
  TimelineOptions options;
  options.out = path("out");
  const auto result = make_timeline({path("traces/1-x")}, options);
  REQUIRE(result);
  CHECK(result->missing ==
        std::vector<std::string>{
            "traces/1-x ended by: timeout", "traces/1-x: ranks 1-2: 0 of 100 calls in 60 s",
            "traces/1-x: rank 7: not in the trace: without timing, or not running, when it began"});
  const std::string trace = *base::read_file(options.out);
  CHECK(trace.find("xpurun-missing-2") != std::string::npos);
  CHECK(trace.find(result->missing[1]) != std::string::npos);
  options.format = TimelineFormat::chrome;
  options.out = path("json");
  REQUIRE(make_timeline({path("traces/1-x")}, options));
  CHECK(nlohmann::json::parse(*base::read_file(path("json/rank-0.json")))["missing"] == result->missing);
}

TEST_CASE("a trace has the spans of its run, as long as it lasts") {
  const base::TemporaryDirectory dir = *base::TemporaryDirectory::create("xpurun-coverage-test-");
  const auto path = [&](const std::string& name) { return dir.path() + "/" + name; };
  put_file(path("run.json"), R"({"schema": "xpurun.run/1"})");
  put_file(path("traces/1/trace.json"), R"({"schema": "xpurun.trace/1"})");
  put_file(path("traces/1/rank-0.xev"), sample_events({}));  // until 2.15 ms
  model::SpanEncoder spans;
  for (const int64_t at_ms : {0, 1, 2, 50}) {
    spans.add({.begin_ns = at_ms * 1'000'000, .duration_ns = 200'000, .stage = model::Stage::optimizer});
  }
  put_file(path("ranks/0/spans-1.xsp"),
           model::SpanEncoder::header({.rank = 0, .pid = 100, .host = "node0", .wall_ns = kWall}) +
               spans.take_block());
  std::vector<base::Error> problems;
  const TraceInputs inputs = find_inputs({path("traces/1")});
  REQUIRE(inputs.sources.size() == 1);
  const Activity rank = read_source(inputs.sources[0], problems);
  const auto python = std::count_if(rank.slices.begin(), rank.slices.end(), [&](const Slice& s) {
    return rank.calls[s.call].category == Category::python;
  });
  CHECK(python == 2);
  CHECK(problems.empty());
}
