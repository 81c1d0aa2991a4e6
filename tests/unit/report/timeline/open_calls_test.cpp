// Collectives that had not ended at a dump, in the traces and on the page.
#include "report/timeline/activity/event_activity.h"
#include "report/timeline/inputs.h"
#include "report/timeline/page/page_timeline.h"
#include "report/timeline/timeline.h"
#include "tests/support/perfetto_text.h"
#include "tests/unit/report/timeline/samples.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

using namespace xpurun;
using namespace xpurun::report;
using Json = nlohmann::json;

namespace {

constexpr int64_t kOpenSecond = 1'000'000'000;

// Two ranks with events until 2.15 ms; at 8 s a dump finds the third all-reduce on both.
struct Hang {
  base::TemporaryDirectory dir = *base::TemporaryDirectory::create("xpurun-open-test-");

  std::string path(const std::string& name) const { return dir.path() + "/" + name; }

  Hang() {
    for (int rank = 0; rank < 2; ++rank) {
      put_file(path(fmt::format("ranks/{}/events-1.xev", rank)), sample_events({.rank = rank}));
    }
    dump(1, 8, 2);
  }

  static Json communicator(int rank, int64_t at_s, int done) {
    const Json third{{"sequence", 3},
                     {"op", "all_reduce"},
                     {"count", 1024},
                     {"dtype", "float32"},
                     {"stage", done >= 3   ? "done"
                               : rank == 0 ? "called"
                                           : "started"},
                     {"age_s", static_cast<double>(at_s) - 0.5}};
    const Json second{{"sequence", 2}, {"op", "all_reduce"}, {"stage", "done"}, {"age_s", at_s}};
    return {{"source", "nccl"},
            {"id", "0000000000000011"},
            {"name", "dp\x1b[31m"},
            {"rank", rank},
            {"size", 2},
            {"called", 3},
            {"done", done},
            {"done_known", true},
            {"calls", {second, third}}};
  }

  void dump(int n, int64_t at_s, int done) const {
    const std::string to = path(fmt::format("dumps/{}-hang", n));
    put_file(
        to + "/dump.json",
        Json{
            {"schema", "xpurun.dump/1"}, {"n", n}, {"host", "node0"}, {"wall_ns", kWall + at_s * kOpenSecond}}
            .dump());
    Json ranks = Json::array();
    for (int rank = 0; rank < 2; ++rank) {
      ranks.push_back(
          {{"rank", rank}, {"pid", 100 + rank}, {"communicators", {communicator(rank, at_s, done)}}});
    }
    put_file(to + "/collectives.json", Json{{"schema", "xpurun.collectives/1"}, {"ranks", ranks}}.dump());
  }

  std::vector<Slice> open(Activity* activity = nullptr) const {
    std::vector<base::Error> problems;
    Activity a = read_source(find_inputs({dir.path()}).sources.at(0), problems);
    std::vector<Slice> out;
    std::copy_if(a.slices.begin(), a.slices.end(), std::back_inserter(out),
                 [&](const Slice& s) { return a.calls[s.call].open; });
    if (activity != nullptr) {
      *activity = std::move(a);
    }
    return out;
  }
};

std::string open_argument(const Call& call, std::string_view name) {
  for (const Argument& a : call.arguments) {
    if (a.name == name) {
      return std::visit([](const auto& value) { return fmt::format("{}", value); }, a.value);
    }
  }
  return "absent";
}

}  // namespace

TEST_CASE("an open collective is a slice from the call to the dump") {
  Activity activity;
  const std::vector<Slice> open = Hang().open(&activity);
  REQUIRE(open.size() == 1);
  CHECK(open[0].begin_ns == kWall + kOpenSecond / 2);
  CHECK(open[0].end_ns() == kWall + 8 * kOpenSecond);
  CHECK(open[0].sequence == 3);
  CHECK(open[0].meeting == meeting_of(0x11, 2, 3));
  const Call& call = activity.calls[open[0].call];
  CHECK(call.name == "all_reduce 4.0 KiB float32 (not finished)");
  CHECK(open_argument(call, "progress") == "called");
  CHECK(open_argument(call, "communicator_size") == "2");
  CHECK(open_argument(call, "communicator") == "0000000000000011");
  CHECK(open_argument(call, "communicator_name").find('\x1b') == std::string::npos);
}

TEST_CASE("a later dump extends an open collective or ends it") {
  const Hang hang;
  hang.dump(2, 20, 2);
  REQUIRE(hang.open().size() == 1);
  CHECK(hang.open()[0].end_ns() == kWall + 20 * kOpenSecond);
  hang.dump(3, 30, 3);
  CHECK(hang.open().empty());
}

TEST_CASE("open collectives in the traces") {
  const Hang hang;
  TimelineOptions options;
  options.out = hang.path("out");
  REQUIRE(make_timeline({hang.dir.path()}, options));
  const std::string text = testing::PerfettoText::of(*base::read_file(options.out));
  CHECK(text.find("not finished, NCCL") != std::string::npos);
  CHECK(text.find("all_reduce 4.0 KiB float32 (not finished)") != std::string::npos);
  CHECK(text.find(fmt::format("{} end rank 1", kWall + 8 * kOpenSecond)) != std::string::npos);
  options.format = TimelineFormat::chrome;
  options.out = hang.path("json");
  REQUIRE(make_timeline({hang.dir.path()}, options));
  const Json trace = Json::parse(*base::read_file(options.out + "/rank-1.json"));
  const auto event = std::find_if(trace["traceEvents"].begin(), trace["traceEvents"].end(),
                                  [](const Json& e) { return e.value("cat", "") == "not_finished"; });
  REQUIRE(event != trace["traceEvents"].end());
  CHECK((*event)["dur"] == 7'500'000.0);
  CHECK((*event)["args"]["sequence"] == 3);
  CHECK((*event)["args"]["progress"] == "started");
}

TEST_CASE("open collectives on the page follow the last calls") {
  const Hang hang;
  const PageTimeline page = page_timeline({hang.dir.path()});
  CHECK(page.about.ends_with("; 2 collectives have not finished"));
  const Json data = Json::parse(page.json);
  size_t open = 0;
  for (const Json& row : data["rows"]) {
    if (row.value("part", "") == "open") {
      ++open;
      CHECK(row["m"][0] == data["rows"].back()["m"][0]);  // joined on all ranks
      const std::string details = data["details"][row["n"][0].get<size_t>()];
      CHECK(details.find("of 2") != std::string::npos);
      CHECK(details.find("call 3, open for ") != std::string::npos);
      // Shown to an eighth of the window behind the last call that has ended or begun.
      const double end_s = static_cast<double>(row["b"][0].get<int64_t>() + row["d"][0].get<int64_t>()) / 1e7;
      CHECK(end_s == doctest::Approx(0.499 + 1.25).epsilon(0.01));
    }
  }
  CHECK(open == 2);
  CHECK(page.svg.find("class=\"tl-open\"") != std::string::npos);
}

TEST_CASE("a rank without events has its open collective") {
  const Hang hang;
  REQUIRE(std::filesystem::remove_all(hang.path("ranks/0")) > 0);
  CHECK(hang.open().size() == 1);
}
