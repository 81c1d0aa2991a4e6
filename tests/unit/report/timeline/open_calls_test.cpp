// Collectives that had not ended at a dump, in the traces and on the page.
#include "common/model/stacks/stack_file.h"
#include "report/events/event_activity.h"
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

  // The dump is that of a hang for which rank 1 is to blame; its main thread has stood in read() for 6 s.
  void blame(double cleared_s) const {
    model::ProcessStacks stacks;
    stacks.pid = 101;
    stacks.rank = 1;
    stacks.role = model::ProcessRole::rank;
    stacks.threads.push_back({.tid = 101, .main = true});
    const auto frame = [&](model::FrameKind kind, const char* function, int line) {
      stacks.threads[0].frames.push_back({.kind = kind, .func = function, .file = "train.py", .line = line});
    };
    frame(model::FrameKind::native, "read", 0);
    frame(model::FrameKind::python, "load\x1b", 7);
    frame(model::FrameKind::native, "eval", 0);
    frame(model::FrameKind::python, "main", 40);
    put_file(path("dumps/1-hang/rank-1.stacks.json"), model::stacks_file(std::move(stacks)));
    Json dump = Json::parse(*base::read_file(path("dumps/1-hang/dump.json")));
    dump["processes"] = Json::array();
    dump["processes"].push_back(
        {{"pid", 101}, {"rank", 1}, {"role", "rank"}, {"file", "rank-1.stacks.json"}});
    dump["ranks"] = Json::array();
    dump["ranks"].push_back({{"rank", 1}, {"pid", 101}, {"still_s", 6.0}});
    put_file(path("dumps/1-hang/dump.json"), dump.dump());
    Json run{{"schema", "xpurun.run/1"}, {"stalls", Json::array()}};
    run["stalls"].push_back({{"n", 1},
                             {"cleared_s", cleared_s},
                             {"dump", "dumps/1-hang"},
                             {"verdict", {{"ranks", Json::array({1})}}}});
    put_file(path("run.json"), run.dump());
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

TEST_CASE("the stack of a culprit is slices from its last move to the dump") {
  const Hang hang;
  hang.blame(-1);
  std::vector<base::Error> problems;
  const Activity a = read_source(find_inputs({hang.dir.path()}).sources.at(1), problems);
  std::vector<std::string> told;
  int64_t until = kLatestNs;
  for (const Slice& s : a.slices) {
    const Call& call = a.calls[s.call];
    if (call.open && call.category == Category::python) {
      CHECK(s.begin_ns == kWall + 2 * kOpenSecond);
      CHECK(s.end_ns() < until);  // inside of the one before
      until = s.end_ns();
      CHECK(a.tracks[s.track].name == "not finished, stack at the hang");
      told.push_back(call.name + " " + open_argument(call, "place"));
    }
  }
  REQUIRE(told.size() == 2);
  CHECK(told[0] == "main train.py:40");
  CHECK(told[1].find('\x1b') == std::string::npos);
  CHECK(told[1].ends_with(" train.py:7"));
  // The page has the stacks elsewhere.
  CHECK(page_timeline({hang.dir.path()}).about.ends_with("; 2 collectives have not finished"));
  hang.blame(30);  // the hang has passed
  const Activity passed = read_source(find_inputs({hang.dir.path()}).sources.at(1), problems);
  CHECK(std::count_if(passed.calls.begin(), passed.calls.end(),
                      [](const Call& call) { return call.open && call.category == Category::python; }) == 0);
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
      CHECK(details.find("communicator_size 2") != std::string::npos);
      CHECK(details.find("sequence 3") != std::string::npos);
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
