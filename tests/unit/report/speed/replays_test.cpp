// Steps that are replays of a CUDA graph with the collectives inside: the ranks meet in the graph, so the
// rank that launches late is the one for which the others wait.
#include "common/wire/segment.h"
#include "report/speed/analysis.h"

#include <doctest/doctest.h>

#include <random>

using namespace xpurun;
using namespace xpurun::report;
using model::SpeedProblem;

namespace {

constexpr int kReplayed = 300;
constexpr int kLateSince = 150;

// Two ranks, 20 ms of work in each graph. Rank 1 is late by 15 ms from kLateSince on.
std::vector<RankRecord> replaying(uint8_t flags) {
  std::vector<RankRecord> out(2);
  std::mt19937 random(5);
  std::uniform_real_distribution<double> noise(0, 0.1);
  std::vector<double> free_ms{1000, 1000};
  for (int r = 0; r < 2; ++r) {
    RankRecord& rank = out[static_cast<size_t>(r)];
    rank.rank = r;
    rank.host = "a";
    rank.gpu = "0";
    rank.events.resize(1);
    rank.events[0].ops[3].function = "cudaGraphLaunch";
    rank.events[0].ops[3].key.op_class = static_cast<uint8_t>(wire::OpClass::graph);
    rank.events[0].ops[3].key.flags = flags;
    rank.events[0].ops[3].key.k = 77 + r;
  }
  for (int step = 0; step < kReplayed; ++step) {
    const double late = step >= kLateSince ? 15 : 0;
    const double begin[] = {free_ms[0] + noise(random), free_ms[1] + late + noise(random)};
    const double both_end = std::max(begin[0], begin[1]) + 20 + noise(random);
    for (size_t r = 0; r < 2; ++r) {
      model::EventFile::Entry entry;
      entry.event.begin_ns = static_cast<uint64_t>(begin[r] * 1e6);
      entry.event.duration_ns = static_cast<uint64_t>((both_end - begin[r]) * 1e6);
      entry.event.op = 3;
      entry.event.sequence = static_cast<uint32_t>(step + 1);
      entry.event.source = static_cast<uint8_t>(wire::Source::events);
      out[r].events[0].events.push_back(entry);
      free_ms[r] = both_end + noise(random);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("replays with collectives: the rank that launches late") {
  const model::SpeedReport report = analyse_speed(replaying(wire::kOpMeets));
  CHECK(report.source == model::StepSource::replays);
  REQUIRE(!report.findings.empty());
  CHECK(report.findings[0].problem == SpeedProblem::slow_rank);
  CHECK(report.findings[0].ranks == model::RankSet{1});
  CHECK(std::abs(report.findings[0].since - kLateSince) <= 3);
}

TEST_CASE("replays without collectives: the ranks do not meet") {
  for (const auto& finding : analyse_speed(replaying(0)).findings) {
    CHECK(finding.ranks.ranks().empty());
  }
}
