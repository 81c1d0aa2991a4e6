#include "launcher/options/values/timeline_specs.h"

#include <doctest/doctest.h>

#include <string>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

std::string error_of(const char* list) {
  const auto specs = timeline_specs(list);
  return specs ? "" : specs.error().what;
}

}  // namespace

TEST_CASE("time lines: first, steps and every, in the order of their steps") {
  const auto specs = timeline_specs(" every:10m, steps:100-110 ,first:5,steps:50,first:5,");
  REQUIRE(specs);
  REQUIRE(specs->size() == 4);
  CHECK((*specs)[0] == TimelineSpec{.first = 1, .last = 5, .text = "first:5"});
  CHECK((*specs)[1] == TimelineSpec{.first = 50, .last = 50, .text = "steps:50"});
  CHECK((*specs)[2] == TimelineSpec{.first = 100, .last = 110, .text = "steps:100-110"});
  CHECK((*specs)[3].kind == TimelineSpec::Kind::every);
  CHECK((*specs)[3].every_s == 600);
  const auto with_host = timeline_specs("first:5+host");
  REQUIRE(with_host);
  CHECK(with_host->at(0).host);
  CHECK(with_host->at(0).last == 5);
  CHECK_FALSE(specs->at(0).host);
  CHECK_FALSE(timeline_specs("+host"));
  const auto seconds = timeline_specs("first:2s+host,steps:5");
  REQUIRE(seconds);
  CHECK(seconds->at(0).first_s == 2);
  CHECK(seconds->at(0).host);
  CHECK(seconds->at(1).first_s == 0);
  CHECK(timeline_specs("")->empty());
  CHECK(timeline_specs("steps:10001-20000")->size() == 1);
}

TEST_CASE("time lines: what is wrong is said") {
  CHECK(error_of("last:5") == "'last:5' is not first:N, first:DURATION, steps:A-B or every:DURATION");
  CHECK(
      error_of("first") ==
      "'first': first: needs a number of steps, or a time of at most 10 minutes, as in first:10 or first:2s");
  CHECK(error_of("first:0s").starts_with("'first:0s': first:"));
  CHECK(error_of("first:11m").starts_with("'first:11m': first:"));
  CHECK(error_of("first:2s,steps:1-3") == "first:2s and steps:1-3 overlap");
  CHECK(error_of("first:0").starts_with("'first:0': first:"));
  CHECK(error_of("first:-3").starts_with("'first:-3': first:"));
  CHECK(error_of("first:ten").starts_with("'first:ten': first:"));
  CHECK(error_of("steps:5-").starts_with("'steps:5-': steps: needs"));
  CHECK(error_of("steps:-5").starts_with("'steps:-5': steps: needs"));
  CHECK(error_of("steps:5-7-9").starts_with("'steps:5-7-9': steps: needs"));
  CHECK(error_of("steps:7-5") == "'steps:7-5' ends before it begins");
  CHECK(error_of("first:10001") == "'first:10001' has more than 10000 steps");
  CHECK(error_of("steps:1-99999999999999999999").starts_with("'steps:1-99999999999999999999': steps: needs"));
  CHECK(error_of("every:soon") == "'every:soon': every: needs a duration, as in every:10m");
  CHECK(error_of("every:9s") == "'every:9s' is not between 10 s and 7 days");
  CHECK(error_of("every:8d") == "'every:8d' is not between 10 s and 7 days");
  CHECK(error_of("every:1m,every:1h") == "every:1m and every:1h: only one time line can be periodic");
  CHECK(error_of("first:10,steps:10-12") == "first:10 and steps:10-12 overlap");
  CHECK(error_of("first:\x1b[31m").find('\x1b') == std::string::npos);
}
