#include "report/timeline/timeline.h"

#include "common/base/packing.h"
#include "tests/support/golden.h"
#include "tests/support/perfetto_text.h"
#include "tests/unit/report/timeline/samples.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

using namespace xpurun;
using namespace xpurun::report;

namespace {

struct Job {
  base::TemporaryDirectory dir = *base::TemporaryDirectory::create("xpurun-timeline-test-");

  std::string path(const std::string& name) const { return dir.path() + "/" + name; }

  // Ranks 0 and 1 on two hosts; the clock of the second is 3 ms ahead.
  Job() {
    for (int rank = 0; rank < 2; ++rank) {
      put_file(path(fmt::format("ranks/{}/events-1.xev", rank)),
               sample_events(
                   {.rank = rank, .host = fmt::format("node{}", rank), .clock_error_ns = rank * 3'000'000}));
    }
  }

  std::string read(const std::string& name) const {
    const auto bytes = base::read_file(path(name));
    REQUIRE(bytes);
    return *bytes;
  }

  TimelineResult make(TimelineOptions options = {}) const {
    options.out = path("out");
    auto result = make_timeline({dir.path()}, options);
    REQUIRE(result);
    return std::move(*result);
  }
  std::string text(const TimelineOptions& options = {}) const {
    (void)make(options);
    return testing::PerfettoText::of(read("out"));
  }
};

size_t count_of(std::string_view text, std::string_view what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) {
    ++n;
  }
  return n;
}

}  // namespace

TEST_CASE("a trace of two hosts") {
  const Job job;
  std::string text = job.text();
  testing::expect_golden("report/timeline.txt", text);
  // Both clocks show the ends of the collectives at the same time.
  CHECK(count_of(text, "1795230915001150000 end rank 0") == 1);
  CHECK(count_of(text, "1795230915001150000 end rank 1") == 1);
}

TEST_CASE("the summary says how well the clocks agree") {
  const TimelineResult result = Job().make();
  CHECK(result.processes == 2);
  CHECK(result.counts.slices == 16);
  CHECK(result.counts.flows == 12);
  CHECK(result.clocks.collectives == 2);
  CHECK(result.clocks.offsets_ns.at("node1") == -3'000'000);
  CHECK(result.clocks.worst_us == 0);
  CHECK(result.clocks.unaligned.empty());
  CHECK(result.problems.empty());
}

TEST_CASE("a flow has two ends or none") {
  const Job job;
  TimelineOptions options;
  options.ranks = model::RankSet{1};
  // Two matmuls with their calls; the collectives meet nobody.
  CHECK(job.make(options).counts.flows == 4);
  options = {};
  options.only = {Category::matmul, Category::collective};
  CHECK(job.make(options).counts.flows == 4);
}

TEST_CASE("Chrome's JSON of a job without a GPU names torch's backend, and no device") {
  const Job job;
  model::SpanEncoder spans;
  nlohmann::json expected{{"rank", 1}, {"world_size", 4}};
  SUBCASE("known") {
    spans.backend("gloo");
    expected["backend"] = "gloo";
  }
  SUBCASE("unknown") {}
  spans.add({.begin_ns = 900'000, .duration_ns = 50'000, .stage = model::Stage::data, .thread = 7});
  put_file(job.path("cpu/ranks/1/spans-1.xsp"),
           model::SpanEncoder::header({.rank = 1, .pid = 9, .host = "n", .mono_ns = 0, .wall_ns = kWall}) +
               spans.take_block());
  put_file(job.path("cpu/run.json"), R"({"schema": "xpurun.run/1", "world_size": 4})");
  REQUIRE(make_timeline({job.path("cpu")}, {.format = TimelineFormat::chrome, .out = job.path("out")}));
  const auto json = nlohmann::json::parse(job.read("out/rank-1.json"));
  CHECK(json["distributedInfo"] == expected);
  CHECK(json["deviceProperties"].empty());
  const auto& events = json["traceEvents"];
  CHECK(std::count_if(events.begin(), events.end(),
                      [](const auto& e) { return e["name"] == "process_name"; }) == 1);
}

TEST_CASE("selection by rank, time and kind") {
  const Job job;
  TimelineOptions options;
  options.ranks = model::RankSet{1};
  CHECK(count_of(job.text(options), "track rank") == 5);  // the process and its four tracks
  options = {};
  options.only = {Category::matmul, Category::memory};
  const std::string only = job.text(options);
  CHECK(count_of(only, "begin") == 8);
  CHECK(count_of(only, "AllReduce") == 0);
  options = {};
  options.from_s = 0.0005;  // from the first event on
  CHECK(count_of(job.text(options), "begin") == 8);
  options = {};
  options.until_s = 0.0005;
  CHECK(count_of(job.text(options), "begin") == 8);
  options.from_s = 100;
  options.until_s = 0;
  options.out = job.path("none");
  CHECK_FALSE(make_timeline({job.dir.path()}, options));
  CHECK_FALSE(std::filesystem::exists(job.path("none")));
}

TEST_CASE("the same event in a trace of the run is shown once") {
  const Job job;
  put_file(job.path("traces/1/rank-0.xev"), sample_events({.rank = 0, .host = "node0"}));
  CHECK(job.make().counts.slices == 16);
}

TEST_CASE("damaged and foreign files are named, the others shown") {
  const Job job;
  const std::string whole = sample_events({.rank = 2, .host = "node0"});
  put_file(job.path("ranks/2/events-1.xev"), std::string_view(whole).substr(0, whole.size() - 5));
  put_file(job.path("ranks/3/events-1.xev"), "garbage");
  put_file(job.path("ranks/4/events-1.xev"), "");
  put_file(job.path("ranks/5/spans-1.xsp"), "xpurun.spans/1\n{");
  const TimelineResult result = job.make();
  CHECK(result.counts.slices == 16);
  REQUIRE(result.problems.size() == 4);
  for (const char* name : {"ranks/2/events-1.xev", "ranks/3/", "ranks/4/", "ranks/5/"}) {
    CHECK(std::any_of(result.problems.begin(), result.problems.end(),
                      [&](const base::Error& e) { return e.what.find(name) != std::string::npos; }));
  }
}

TEST_CASE("no event is an error") {
  const Job job;
  put_file(job.path("empty/run.json"), "{}");
  TimelineOptions options;
  options.out = job.path("out");
  CHECK_FALSE(make_timeline({job.path("empty")}, options));
  CHECK_FALSE(make_timeline({job.path("absent")}, options));
  options.ranks = model::RankSet{17};
  CHECK(make_timeline({job.dir.path()}, options).error().what == "none of these ranks is there");
  options.ranks.reset();
  options.out = job.path("no/such/directory");
  CHECK_FALSE(make_timeline({job.dir.path()}, options));
}

TEST_CASE("groups stand in the names of the ranks") {
  const Job job;
  TimelineOptions options;
  options.groups = *GroupOrder::parse("tp2-dp2");
  CHECK(job.text(options).find("track rank 1 (tp1 dp0), node1, H200\n") != std::string::npos);
  options.groups = *GroupOrder::parse("tp1-dp2");
  options.first_group = true;
  CHECK(job.make(options).processes == 2);
}

TEST_CASE("groups that cannot be those of the job are refused") {
  const Job job;
  TimelineOptions options;
  options.out = job.path("out");
  const auto error_of = [&](const char* groups) {
    options.groups = *GroupOrder::parse(groups);
    const auto result = make_timeline({job.dir.path()}, options);
    return result ? std::string() : result.error().what;
  };
  CHECK(error_of("tp4") == "a group of tp4 has 4 ranks, but only 2 are there");
  CHECK(error_of("tp1") == "these groups have 1 rank, the job has at least 2");
  put_file(job.path("run.json"), R"({"schema": "xpurun.run/1", "world_size": 3})");
  CHECK(error_of("tp2-dp2") == "these groups have 4 ranks, the job has 3");
  CHECK(error_of("dp3").empty());
}

TEST_CASE("gzip holds the same trace") {
  const Job job;
  const std::string plain = (job.make(), job.read("out"));
  TimelineOptions options;
  options.compression = Compression::gzip;
  (void)job.make(options);
  CHECK(base::gunzip(job.read("out"), 1 << 20) == plain);
}

TEST_CASE("spans and marks of Python beside the events") {
  const Job job;
  model::SpanEncoder spans;
  spans.add({.begin_ns = 900'000,
             .duration_ns = 50'000,
             .stage = model::Stage::data,
             .name = spans.name("next"),
             .thread = 7});
  spans.add({.begin_ns = 1'010'000,
             .duration_ns = 20'000,
             .cpu_ns = 15'000,
             .stage = model::Stage::forward,
             .name = spans.name("Linear"),
             .place = spans.name("train.py:40 (step)"),
             .thread = 7});
  spans.add({.begin_ns = 1'000'000,
             .duration_ns = 100'000,
             .stage = model::Stage::function,
             .name = spans.name("step"),
             .thread = 7});
  spans.add({.begin_ns = 1'100'000, .stage = model::Stage::mark, .thread = 7});
  put_file(
      job.path("ranks/0/spans-1.xsp"),
      model::SpanEncoder::header({.rank = 0, .pid = 100, .host = "node0", .mono_ns = 0, .wall_ns = kWall}) +
          spans.take_block());
  const std::string text = job.text();
  const std::string track = "rank 0, node0, H200 / Python thread 7:";
  CHECK(text.find(fmt::format("begin {} Linear [python] stage=forward place=train.py:40 (step) cpu_us=15\n",
                              track)) != std::string::npos);
  CHECK(text.find(fmt::format("1795230915001100000 instant {} mark [python]", track)) != std::string::npos);
  // The inner span begins and ends inside the outer one, on the same row.
  CHECK(text.find("1795230915001030000 end " + track) < text.find("1795230915001100000 end " + track));
  std::filesystem::remove(job.path("out"));
  TimelineOptions options;
  options.format = TimelineFormat::chrome;
  (void)job.make(options);
  testing::expect_golden("report/timeline-spans.json", job.read("out/rank-0.json"));
}

TEST_CASE("Chrome's JSON has the fields that other programs need") {
  const Job job;
  TimelineOptions options;
  options.format = TimelineFormat::chrome;
  const TimelineResult result = job.make(options);
  CHECK(result.files == std::vector{job.path("out/rank-0.json"), job.path("out/rank-1.json")});
  const std::string text = job.read("out/rank-1.json");
  CHECK(text.find("\"rank\": 1,") < text.find("traceEvents"));
  const auto json = nlohmann::json::parse(text);
  CHECK(json["distributedInfo"]["world_size"] == 2);
  std::map<std::string, int> names;
  std::map<int64_t, std::string> runtime;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] != "X") {
      continue;
    }
    ++names[event["name"]];
    const int64_t correlation = event["args"].value("correlation", 0);
    if (event["cat"] == "cuda_runtime") {
      runtime[correlation] = event["name"];
    }
  }
  CHECK(names["ncclKernel_AllReduce_RING_SIMPLE"] == 2);
  CHECK(names["matmul 4096x1024x512 bf16"] == 2);
  for (const auto& event : json["traceEvents"]) {
    if (event.value("cat", "") == "kernel") {
      CHECK(runtime.at(event["args"]["correlation"]) == "cudaLaunchKernel");
      CHECK(event["pid"] == 1);
      // Streams count from 1, also where ours count from 0.
      CHECK(event["args"]["stream"] >= 2);
      CHECK(event["tid"] == event["args"]["stream"]);
    }
  }
}

TEST_CASE("a send and its receive are joined by a flow, and say nothing of the clocks") {
  const base::TemporaryDirectory dir = *base::TemporaryDirectory::create("xpurun-timeline-test-");
  for (int rank = 0; rank < 2; ++rank) {
    model::SpanEncoder spans;
    spans.add({.begin_ns = 1'000'000 + rank * 700'000,
               .duration_ns = 50'000,
               .stage = model::Stage::communication,
               .name = spans.name(rank == 0 ? "send" : "recv"),
               .thread = 7,
               .group = spans.name(model::pair_group("abc.0", 0, 1, false)),
               .sequence = 4});
    put_file(fmt::format("{}/ranks/{}/spans-1.xsp", dir.path(), rank),
             model::SpanEncoder::header(
                 {.rank = rank, .pid = 9, .host = fmt::format("n{}", rank), .mono_ns = 0, .wall_ns = kWall}) +
                 spans.take_block());
  }
  const auto made = make_timeline({dir.path()}, {.out = dir.path() + "/out"});
  REQUIRE(made);
  CHECK(made->counts.flows == 2);
  CHECK(made->clocks.collectives == 0);
  const std::string text = testing::PerfettoText::of(*base::read_file(dir.path() + "/out"));
  CHECK(count_of(text, " flow1") == 2);
  // Alone, it has no end to be joined with.
  TimelineOptions one{.out = dir.path() + "/one"};
  one.ranks = model::RankSet{1};
  const auto alone = make_timeline({dir.path()}, one);
  REQUIRE(alone);
  CHECK(alone->counts.flows == 0);
}

TEST_CASE("sampled calls are marked by a row") {
  const base::TemporaryDirectory dir = *base::TemporaryDirectory::create("xpurun-timeline-test-");
  model::EventEncoder encoder;
  encoder.define(0, key_of(wire::Api::cublasGemmEx), 2'000'000'000);
  // Calls 0 and 1 follow each other; call 40 is the next timed one.
  for (const uint32_t number : {0U, 1U, 40U}) {
    encoder.add({.begin_ns = 1'000'000 + number * 10'000,
                 .duration_ns = 5'000,
                 .op = 0,
                 .sequence = number,
                 .delay_us = 2,
                 .stream = 1,
                 .source = 1});
  }
  put_file(dir.path() + "/ranks/0/events-1.xev",
           model::EventEncoder::header(
               {.rank = 0, .pid = 9, .host = "n", .gpu = "H200", .mono_ns = 0, .wall_ns = kWall}) +
               encoder.take_block());
  REQUIRE(make_timeline({dir.path()}, {.out = dir.path() + "/out"}));
  const std::string text = testing::PerfettoText::of(*base::read_file(dir.path() + "/out"));
  CHECK(text.find(fmt::format("{} begin rank 0, n, H200 / sampled: not every GPU call is timed: not every",
                              kWall + 1'008'000)) != std::string::npos);
  CHECK(count_of(text, "begin rank 0, n, H200 / sampled") == 1);

  REQUIRE(make_timeline({dir.path()}, {.format = TimelineFormat::chrome, .out = dir.path() + "/json"}));
  const auto json = nlohmann::json::parse(*base::read_file(dir.path() + "/json/rank-0.json"));
  std::vector<nlohmann::json> rows;
  std::vector<nlohmann::json> marks;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "X" && event["cat"] == "sampled") {
      marks.push_back(event);
    } else if (event["name"] == "thread_name" &&
               event["args"]["name"].get<std::string>().starts_with("sampled")) {
      rows.push_back(event);
    }
  }
  REQUIRE(marks.size() == 1);
  REQUIRE(rows.size() == 1);
  CHECK(marks[0]["name"] == "not every GPU call is timed");
  CHECK(marks[0]["dur"] == 390.0);  // from the call of number 1 to that of number 40
  CHECK(marks[0]["tid"] == rows[0]["tid"]);
}
