// Since when a rank is slow: also when the rank binds the whole job, and when the job changes again later.
#include "report/speed/analysis.h"
#include "report/speed/ranks/rank_shift.h"
#include "report/speed/wording.h"
#include "tests/support/rounds.h"
#include "tests/unit/report/speed/made_job.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>

using namespace xpurun;
using namespace xpurun::report;
using model::SpeedProblem;
using tests::MadeJob;
using tests::StepParts;

namespace {

std::string all_sentences(const model::SpeedReport& report) {
  std::string out;
  for (const auto& f : report.findings) {
    out += f.sentence + "\n";
  }
  return out;
}

const model::SpeedFinding* slow_rank_in(const model::SpeedReport& report) {
  for (const auto& f : report.findings) {
    if (f.problem == SpeedProblem::slow_rank) {
      return &f;
    }
  }
  return nullptr;
}

}  // namespace

TEST_CASE("property: a rank whose own time shifts has its step in the sentence, and no other rank has one") {
  std::mt19937 random(21);
  const auto between = [&](int from, int to) {
    return from + static_cast<int>(random() % static_cast<uint32_t>(to - from));
  };
  for (uint32_t seed = 1; seed <= tests::rounds(25); ++seed) {
    const int ranks = between(2, 12);
    const int slow = between(0, ranks);
    const int at = between(90, 170);
    const double more = between(10, 40);
    const int part = between(0, 3);
    MadeJob job{.ranks = ranks, .steps = 260, .visible_calls = seed % 2 == 0, .noise = 0.02, .seed = seed};
    job.change = [=](int rank, int step, StepParts& p) {
      if (rank == slow && step >= at) {
        (part == 0 ? p.data : part == 1 ? p.forward : p.between) += more;
      }
    };
    const auto report = analyse_speed(tests::make_ranks(job));
    CAPTURE(seed);
    CAPTURE(ranks);
    CAPTURE(at);
    CAPTURE(more);
    const model::SpeedFinding* f = slow_rank_in(report);
    REQUIRE_MESSAGE(f != nullptr, all_sentences(report));
    CHECK(f->ranks == model::RankSet{slow});
    // Step 0 of the job has no begin.
    CHECK_MESSAGE(std::abs(f->since - (at - 1)) <= 3, f->sentence);
    CHECK(f->since_wall_ns > 0);
    CHECK_MESSAGE(f->sentence.find(fmt::format(" since step {} ({}): ", f->since,
                                               time_of_day(f->since_wall_ns))) != std::string::npos,
                  f->sentence);
    for (const model::RankSpeed& rank : report.ranks) {
      CAPTURE(rank.rank);
      if (rank.rank == slow) {
        CHECK(std::abs(rank.since - (at - 1)) <= 3);
        CHECK(rank.since_wall_ns > 0);
        CHECK(rank.risen == doctest::Approx(more / 97).epsilon(0.25));
      } else {
        CHECK(rank.since == -1);
        CHECK(rank.risen == 0);
      }
    }
  }
}

TEST_CASE("a rank that was slow before the whole job became slower keeps its own step") {
  for (const double more : {12.0, 40.0}) {
    MadeJob job{.ranks = 6, .steps = 420, .visible_calls = true, .noise = 0.01, .seed = 4};
    job.change = [more](int rank, int step, StepParts& p) {
      p.data += rank == 2 && step >= 120 ? more : 0;
      p.backward *= step >= 280 ? 1.6 : 1;
    };
    const auto report = analyse_speed(tests::make_ranks(job));
    const model::SpeedFinding* f = slow_rank_in(report);
    REQUIRE_MESSAGE(f != nullptr, all_sentences(report));
    CHECK(f->ranks == model::RankSet{2});
    CHECK_MESSAGE(std::abs(f->since - 119) <= 5, f->sentence);
  }
}

TEST_CASE("a rank that was always slow has no step, also when the job changes") {
  MadeJob job{.ranks = 6, .steps = 420, .visible_calls = true, .noise = 0.01, .seed = 5};
  job.change = [](int rank, int step, StepParts& p) {
    p.forward *= rank == 2 ? 1.5 : 1;
    p.backward *= step >= 280 ? 1.6 : 1;
  };
  const auto report = analyse_speed(tests::make_ranks(job));
  const model::SpeedFinding* f = slow_rank_in(report);
  REQUIRE_MESSAGE(f != nullptr, all_sentences(report));
  CHECK(f->ranks == model::RankSet{2});
  CHECK_MESSAGE(f->since == -1, f->sentence);
  CHECK(f->sentence.find("since step") == std::string::npos);
}

TEST_CASE("a rank that was always slow is named, also if its lateness is too uneven for one mean") {
  MadeJob job{.ranks = 3, .steps = 120, .visible_calls = true, .noise = 0.005, .seed = 12};
  job.change = [](int rank, int step, StepParts& p) { p.forward = rank == 2 ? 135 : step < 75 ? 120 : 30; };
  const auto report = analyse_speed(tests::make_ranks(job));
  REQUIRE(!report.findings.empty());
  CHECK(report.findings[0].problem == model::SpeedProblem::slow_rank);
  CHECK(report.findings[0].ranks == model::RankSet{2});
}

TEST_CASE("property: the load of a machine is no onset of a rank") {
  for (uint32_t seed = 1; seed <= tests::rounds(15); ++seed) {
    MadeJob job{.ranks = 2 + static_cast<int>(seed % 9),
                .steps = 300,
                .visible_calls = true,
                .noise = 0.04,
                .seed = seed};
    const auto machine = tests::shared_machine(300, seed);
    job.change = [&machine](int, int step, StepParts& p) {
      for (double* part : {&p.data, &p.forward, &p.backward, &p.optimizer}) {
        *part *= machine[static_cast<size_t>(step)];
      }
    };
    const auto report = analyse_speed(tests::make_ranks(job));
    for (const model::RankSpeed& rank : report.ranks) {
      CHECK_MESSAGE(rank.since == -1, "seed " << seed << " rank " << rank.rank << " risen " << rank.risen);
    }
  }
}

TEST_CASE("a rank that was slow before the job became slower has been slow from the first step on") {
  // Other programs make the slow rank's code take longer; what the rank costs is more than what they add.
  const auto found = [](double first_ms, double later_ms) {
    MadeJob job{.ranks = 2, .steps = 400, .visible_calls = true, .seed = 5};
    job.change = [=](int rank, int step, StepParts& p) {
      p.forward += rank == 1 ? (step < 100 ? first_ms : later_ms) : 0;
    };
    const auto report = analyse(job);
    const auto f = std::find_if(report.findings.begin(), report.findings.end(), [](const auto& one) {
      return one.problem == model::SpeedProblem::slow_rank;
    });
    REQUIRE(f != report.findings.end());
    CHECK(f->ranks == model::RankSet{1});
    return *f;
  };
  const model::SpeedFinding always = found(400, 900);
  CHECK_MESSAGE(always.since == -1, always.sentence);
  CHECK(always.lost_s == doctest::Approx(0.9).epsilon(0.1));
  const model::SpeedFinding became = found(15, 900);
  CHECK_MESSAGE(std::abs(became.since - 100) <= 3, became.sentence);
}
