// What the page shows of rotated files, traces and captures.
#include "report/timeline/page/page_timeline.h"
#include "tests/unit/report/timeline/samples.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace xpurun;
using namespace xpurun::report;
using Json = nlohmann::json;

namespace {

constexpr int64_t kPageSecond = 1'000'000'000;

// One step of sample_events() at each of the seconds; the file was begun with the first.
std::string file_at(const std::vector<int64_t>& seconds, bool captured = false, base::Rank rank = 0) {
  model::EventEncoder encoder;
  model::EventKey key = key_of(wire::Api::cublasGemmEx);
  if (captured) {
    key.op_class = static_cast<uint8_t>(wire::OpClass::kernel);
  }
  encoder.define(0, key, 2'000'000'000);
  for (const int64_t at : seconds) {
    encoder.add({.begin_ns = static_cast<uint64_t>(at * kPageSecond),
                 .duration_ns = 1'000'000,
                 .op = 0,
                 .source = static_cast<uint8_t>(captured ? wire::Source::cupti : wire::Source::events)});
  }
  return model::EventEncoder::header({.rank = rank,
                                      .pid = 100,
                                      .host = "node0",
                                      .mono_ns = seconds.front() * kPageSecond,
                                      .wall_ns = kWall + seconds.front() * kPageSecond}) +
         encoder.take_block();
}

class Run {
 public:
  void put(const std::string& name, const std::string& bytes) const {
    put_file(dir_.path() + "/" + name, bytes);
  }
  PageTimeline timeline(const PageTimelineLimits& limits = {}) const {
    return page_timeline({dir_.path()}, limits);
  }
  Json page() const { return Json::parse(timeline().json); }
  // Seconds at which the blocks of a row begin.
  static std::vector<int64_t> seconds(const Json& page, std::string_view part) {
    std::vector<int64_t> out;
    const int64_t begin = std::stoll(page["begin_ns"].get<std::string>());
    for (const Json& row : page["rows"]) {
      int64_t at = 0;
      for (const Json& delta : row["b"]) {
        at += delta.get<int64_t>();
        if (row.value("part", "") == part) {
          out.push_back((begin + at * 100 - kWall) / kPageSecond);
        }
      }
    }
    return out;
  }

 private:
  base::TemporaryDirectory dir_ = *base::TemporaryDirectory::create("xpurun-page-test-");
};

}  // namespace

TEST_CASE("the page reads as many rotated files as hold its seconds") {
  const Run run;
  run.put("ranks/0/events-8.xev", file_at({5, 80}));
  run.put("ranks/0/events-9.xev", file_at({81, 91, 92}));
  run.put("ranks/0/events-10.xev", file_at({95, 96}));
  run.put("ranks/0/events-11.xev", file_at({99, 100}));
  CHECK(Run::seconds(run.page(), "") == std::vector<int64_t>{91, 92, 95, 96, 99, 100});
}

TEST_CASE("the page shows captures and traces that overlap its seconds") {
  const Run run;
  run.put("ranks/0/events-1.xev", file_at({99, 100}));
  run.put("captures/1/rank-0.xev", file_at({20, 30}, true));
  run.put("captures/2/rank-0.xev", file_at({94, 95}, true));
  run.put("traces/1/rank-0.xev", file_at({96, 97}));
  const Json page = run.page();
  CHECK(Run::seconds(page, "captured") == std::vector<int64_t>{94, 95});
  CHECK(Run::seconds(page, "") == std::vector<int64_t>{96, 97, 99, 100});
  // Of a name that stands in a row of timed calls.
  const size_t name = page["rows"][0]["n"][0];
  CHECK(page["rows"][0].value("part", "") == "");
  CHECK(page["rate"][name] == "TFLOP/s");
  CHECK(page["work"][name] == 0.002);
  CHECK(page["details"][name] == "transposes TN, flop 2000000000");
}

TEST_CASE("of many ranks the page shows those of the verdict and others at equal distances") {
  const Run run;
  for (base::Rank rank = 0; rank < 40; ++rank) {
    run.put(fmt::format("ranks/{}/events-1.xev", rank), file_at({99, 100}, false, rank));
  }
  const PageTimeline page = run.timeline({.ranks = 10, .first = {17, 18, 90}});
  const Json data = Json::parse(page.json);
  model::RankSet shown;
  for (const Json& row : data["rows"]) {
    shown.insert(row["rank"].get<base::Rank>());
  }
  CHECK(shown.size() <= 10);
  CHECK(shown.contains(model::RankSet{0, 17, 18}));
  CHECK(page.about.find("; of 40 ranks, those named by the verdict and some others") != std::string::npos);
}

TEST_CASE(
    "blocks are merged until they fit, at most to the length of the window, and all calls are counted") {
  const Run run;
  for (base::Rank rank = 0; rank < 8; ++rank) {
    run.put(fmt::format("ranks/{}/events-1.xev", rank),
            file_at({91, 92, 93, 94, 95, 96, 97, 98, 99, 100}, false, rank));
  }
  for (const size_t blocks : {size_t{40}, size_t{3}}) {
    const PageTimeline page = run.timeline({.blocks = blocks});
    CAPTURE(page.about);
    const Json data = Json::parse(page.json);
    CHECK(data["rows"].size() == 8);
    uint64_t calls = 0;
    for (const Json& count : data["calls"]) {
      calls += count.get<uint64_t>();
    }
    CHECK(calls == 80);
    CHECK(page.about.find(blocks == 40 ? "; calls within 1048 ms are one block" : " ms are one block") !=
          std::string::npos);
    CHECK(page.about.size() < 80);
  }
}
