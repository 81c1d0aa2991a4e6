// A guard for jobs of many ranks and steps: time that grows with the records only, and bounded memory for
// each. Compares times of one program with each other, by CPU time of the thread: nothing here depends on the
// machine.
#include "report/speed/analysis.h"
#include "tests/unit/report/speed/made_job.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <limits>
#include <malloc.h>

using namespace xpurun;
using namespace xpurun::report;
using tests::MadeJob;

namespace {

constexpr double kMostOfDoubling = 3;  // 2: linear, 4: quadratic
constexpr int kRounds = 4;             // of each size, the fastest counts
constexpr int kMostRounds = 16;        // on a machine so busy that some size has had no quiet round

double cpu_seconds() {
  timespec used{};
  REQUIRE(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

// With a slow rank, so that the comparisons of ranks and steps run.
std::vector<RankRecord> many(int ranks, int steps) {
  MadeJob job{.ranks = ranks, .steps = steps, .ranks_per_host = 8, .visible_calls = true};
  job.change = [steps](int rank, int step, tests::StepParts& p) {
    p.data += rank == 5 && step > steps / 2 ? 25 : 0;
  };
  return tests::make_ranks(job);
}

double time_of(const std::vector<RankRecord>& ranks) {
  const double begin = cpu_seconds();
  const auto report = analyse_speed(ranks);
  const double used = cpu_seconds() - begin;
  REQUIRE(!report.findings.empty());
  REQUIRE(report.findings[0].ranks == model::RankSet{5});
  return used;
}

// The sizes take turns: a neighbour that slows the processor down for a while slows all of them.
template <size_t N>
std::array<double, N> fastest(const std::array<std::vector<RankRecord>, N>& sizes) {
  std::array<double, N> best{};
  best.fill(std::numeric_limits<double>::max());
  const auto disturbed = [&best] {
    return std::any_of(best.begin(), best.end(), [&](double s) { return s >= kMostOfDoubling * best[0]; });
  };
  for (int round = 0; round < kRounds || (round < kMostRounds && disturbed()); ++round) {
    for (size_t i = 0; i < N; ++i) {
      best[i] = std::min(best[i], time_of(sizes[i]));
    }
  }
  return best;
}

// In use, on the heap and in mappings of large blocks.
size_t heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace

TEST_CASE("scale: twice the ranks or twice the steps take about twice the time") {
  const auto times = fastest<3>({many(96, 150), many(192, 150), many(96, 300)});
  const double usual = times[0];
  const double ranks = times[1];
  const double steps = times[2];
  MESSAGE("twice the ranks: " << ranks / usual << ", twice the steps: " << steps / usual);
  CHECK(ranks / usual < kMostOfDoubling);
  CHECK(steps / usual < kMostOfDoubling);
}

TEST_CASE("scale: what is kept of a step of a rank is bounded, also while spans are many") {
  for (const auto& [count, steps] : {std::pair{32, 200}, std::pair{32, 400}, std::pair{64, 200}}) {
    const auto ranks = many(count, steps);
    SpeedAnalysis analysis(ranks.size());
    const size_t before = heap_bytes();
    for (const RankRecord& rank : ranks) {
      analysis.add(rank);
    }
    const size_t kept = heap_bytes() - before;
    const auto records = static_cast<size_t>(count) * static_cast<size_t>(steps);
    // A step and its arrival at one collective; vectors may have grown to twice their size.
    const size_t most = 2 * (sizeof(StepRecord) + sizeof(Arrival)) + 64;
    const size_t each = kept / records;
    CHECK_MESSAGE(each <= most, each << " bytes for each record, " << most << " at most");
    CHECK(analysis.finish().steps == steps - 1);
  }
}
