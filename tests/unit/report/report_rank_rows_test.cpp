#include "report/run/run_report.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;

TEST_CASE("the rank table says when a rank last made progress") {
  const struct {
    double still_s;
    model::RankState state;  // of the culprit, rank 0
    const char* progress;
  } cases[] = {
      {12, model::RankState::stuck, "12 s before the dump"},
      {0.2, model::RankState::busy, "at the dump"},
      {0.2, model::RankState::waiting, "at the dump"},
      {0.2, model::RankState::stuck, ""},  // a stuck rank made no progress
  };
  for (const auto& c : cases) {
    CAPTURE(name_of(c.state));
    model::DumpManifest dump;
    dump.ranks.push_back({.rank = 0, .pid = 7, .state = 'S', .has_python = true, .still_s = c.still_s});
    model::Verdict verdict;
    verdict.ranks = {0};
    verdict.state = c.state;
    const auto rows = rank_rows({}, verdict, dump, {});
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].progress == c.progress);
    CHECK(rows[0].state == name_of(c.state));
  }
}
