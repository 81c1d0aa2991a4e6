// Jobs without a GPU on a machine that other programs keep busy: who is slow, and who is not.
#include "report/speed/analysis.h"
#include "report/speed/changes/change_points.h"
#include "report/speed/patterns.h"
#include "report/speed/ranks/slow_rule.h"
#include "tests/unit/report/speed/loader_steps.h"
#include "tests/unit/report/speed/made_job.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

using namespace xpurun;
using namespace xpurun::report;
using model::SlowCause;
using model::SpeedProblem;
using tests::MadeJob;
using tests::StepParts;

namespace {

std::string sentences_of(const model::SpeedReport& report) {
  std::string out;
  for (const auto& f : report.findings) {
    out += f.sentence + "\n";
  }
  return out;
}

// All ranks call `calls` collectives in each step from `from` on, 0.8 ms each. The threads of rank 1 lack a
// CPU meanwhile, which is nobody's fault: the transfer takes as long on all ranks. Rank 1 comes out of each
// call `late_ms` after rank 0, and so into the next one.
std::vector<RankRecord> many_collectives(int steps, int from, int calls, double late_ms = 0) {
  MadeJob job{.ranks = 2, .steps = steps, .noise = 0.02, .seed = 4};
  job.change = [](int, int, StepParts& p) {
    p = {.data = 0.1, .forward = 0.5, .backward = 3, .optimizer = 0.2, .transfer = 0.3, .between = 0.4};
  };
  std::vector<RankRecord> ranks = tests::make_ranks(job);
  for (size_t r = 0; r < ranks.size(); ++r) {
    model::SpanFile& file = ranks[r].spans[0];
    std::vector<model::Span> spans;
    int64_t later = 0;
    int64_t delay = 0;
    size_t load = 0;
    uint64_t sequence = 0;
    int step = 0;
    for (model::Span span : file.spans) {
      span.begin_ns += later;
      spans.push_back(span);
      if (span.stage != model::Stage::optimizer) {
        continue;
      }
      for (int i = 0; i < (step >= from ? calls : 0); ++i) {
        later += tests::ms(0.8);
        const int64_t late = r == 1 && i > 0 ? tests::ms(late_ms) : 0;
        const int64_t end = r == 1 && i + 1 < calls ? tests::ms(late_ms) : 0;
        spans.push_back({.begin_ns = span.begin_ns + span.duration_ns + i * tests::ms(0.8) + late,
                         .duration_ns = tests::ms(0.8) + end - late,
                         .cpu_ns = tests::ms(r == 1 ? 0.1 : 0.3),
                         .stage = model::Stage::communication,
                         .name = 5,
                         .place = 9,
                         .thread = 100,
                         .group = 6,
                         .sequence = ++sequence});
        delay += tests::ms(r == 1 ? 0.6 : 0);
      }
      file.loads[load].at_ns += later;
      file.loads[load].run_delay_ns += delay;
      ++load;
      ++step;
    }
    file.spans = std::move(spans);
  }
  return ranks;
}

}  // namespace

TEST_CASE("collectives that all ranks call more of accuse nobody") {
  const auto report = analyse_speed(many_collectives(600, 300, 40));
  REQUIRE_MESSAGE(report.findings.size() == 1, sentences_of(report));
  const model::SpeedFinding& f = report.findings[0];
  CHECK(f.problem == SpeedProblem::slower);
  CHECK(f.cause == SlowCause::more_work);
  CHECK(f.ranks.empty());
  CHECK(f.since == 300);
  CHECK_MESSAGE(f.sentence.find("each rank calls 40 collectives a step, 0 before (train.py:40 (main))") !=
                    std::string::npos,
                f.sentence);
}

TEST_CASE("a rank that comes out of each of many collectives a little later is not blamed for the next one") {
  for (const int from : {0, 300}) {
    CAPTURE(from);
    const auto report = analyse_speed(many_collectives(600, from, 40, 0.3));
    for (const model::SpeedFinding& f : report.findings) {
      CHECK_MESSAGE(f.ranks.empty(), sentences_of(report));
    }
  }
}

TEST_CASE("more time between the stages only is the rank's own, however long it lacks a CPU") {
  MadeJob job{.ranks = 2, .steps = 400, .visible_calls = true, .seed = 5};
  job.change = [](int rank, int step, StepParts& p) {
    const bool slow = rank == 1 && step >= 200;
    p.between += slow ? 60 : 0;
  };
  auto ranks = tests::make_ranks(job);
  int64_t delay = 0;
  for (size_t i = 0; i < ranks[1].spans[0].loads.size(); ++i) {
    delay += i >= 200 ? tests::ms(55) : 0;
    ranks[1].spans[0].loads[i].run_delay_ns += delay;
  }
  const auto report = analyse_speed(ranks);
  REQUIRE(!report.findings.empty());
  CHECK(report.findings[0].ranks == model::RankSet{1});
  CHECK_MESSAGE(report.findings[0].cause == SlowCause::host_issue, report.findings[0].sentence);
  CHECK(report.findings[0].severity == model::SpeedSeverity::warning);
}

TEST_CASE("a rank that became slow is told, though the steps and the inferred waits vary more than that") {
  MadeJob job{.ranks = 2, .steps = 350, .visible_calls = true, .noise = 0.1, .seed = 9};
  std::mt19937 random(3);
  std::lognormal_distribution<double> load(0, 0.45);
  job.change = [&](int rank, int step, StepParts& p) {
    p.forward *= load(random);
    p.backward *= load(random);
    p.between += rank == 1 && step >= 150 ? 45 : 0;
  };
  const auto report = analyse_speed(tests::make_ranks(job));
  REQUIRE(!report.findings.empty());
  const model::SpeedFinding& f = report.findings[0];
  CHECK(f.problem == SpeedProblem::slow_rank);
  CHECK(f.ranks == model::RankSet{1});
  CHECK_MESSAGE(std::abs(f.since - 150) < 15, f.sentence);
}

TEST_CASE(
    "the rank that waits for its batches is named, though its other times are as long as those of the "
    "others") {
  MadeJob job{.ranks = 3, .steps = 400, .seed = 2};
  std::mt19937 random(8);
  std::lognormal_distribution<double> much(0, 0.8);
  std::lognormal_distribution<double> little(0, 0.3);
  job.change = [&](int rank, int, StepParts& p) {
    p.data = rank == 2 ? 60 : 3;
    p.forward *= much(random) * (rank == 2 ? 0.1 : 1);
    p.backward = 20 * little(random);
  };
  const auto report = analyse_speed(tests::make_ranks(job));
  REQUIRE(!report.findings.empty());
  const model::SpeedFinding& f = report.findings[0];
  CHECK(f.cause == SlowCause::input);
  CHECK_MESSAGE(f.ranks == model::RankSet{2}, sentences_of(report));
}

TEST_CASE("a spell of one rank is told with its begin and end, though the job's steps vary too much") {
  MadeJob job{.ranks = 3, .steps = 900, .seed = 7};
  std::mt19937 random(6);
  std::lognormal_distribution<double> load(0, 0.3);
  job.change = [&](int rank, int step, StepParts& p) {
    p.forward *= load(random);
    p.backward *= load(random);
    p.between += rank == 2 && step >= 300 && step < 450 ? 25 : 0;
  };
  const auto report = analyse_speed(tests::make_ranks(job));
  REQUIRE_MESSAGE(report.findings.size() == 1, sentences_of(report));
  const model::SpeedFinding& f = report.findings[0];
  CHECK(f.problem == SpeedProblem::slower);
  CHECK(f.ranks == model::RankSet{2});
  CHECK_MESSAGE(std::abs(f.since - 300) < 20, f.sentence);
  CHECK_MESSAGE(std::abs(f.until - 450) < 20, f.sentence);
  CHECK_MESSAGE(f.sentence.find(": rank 2 was slow in the code between the stages") != std::string::npos,
                f.sentence);
  CHECK_MESSAGE(f.sentence.find(" in all: ") != std::string::npos, f.sentence);
}

TEST_CASE("without a GPU, a larger batch shows in the CPU time of the passes only") {
  MadeJob job{.ranks = 3, .steps = 300, .seed = 11};
  job.change = [](int rank, int, StepParts& p) {
    p.forward *= rank == 2 ? 3 : 1;
    p.backward *= rank == 2 ? 3 : 1;
  };
  const auto report = analyse_speed(tests::make_ranks(job));
  REQUIRE(!report.findings.empty());
  const model::SpeedFinding& f = report.findings[0];
  CHECK(f.ranks == model::RankSet{2});
  CHECK_MESSAGE(f.sentence.find(": it computes 2.") != std::string::npos, f.sentence);
  CHECK_MESSAGE(
      f.sentence.find(" times as long in the forward and backward pass (train.py:40 (main)), with the "
                      "CPU busy all the time") != std::string::npos,
      f.sentence);
  // A function between the passes is no larger batch.
  job.change = [](int rank, int, StepParts& p) { p.between += rank == 2 ? 100 : 0; };
  CHECK(sentences_of(analyse_speed(tests::make_ranks(job))).find("computes") == std::string::npos);
}

TEST_CASE("a spell of a load on the machine is a note, and accuses no rank") {
  for (const bool one_rank : {false, true}) {
    CAPTURE(one_rank);
    MadeJob job{.ranks = 2, .steps = 700, .visible_calls = true, .seed = 17};
    job.change = [&](int rank, int step, StepParts& p) {
      const bool loaded = step >= 300 && step < 450;
      p.delay += loaded ? (one_rank && rank == 0 ? 5 : 60) : 0;
    };
    const auto report = analyse_speed(tests::make_ranks(job));
    REQUIRE_MESSAGE(report.findings.size() == 1, sentences_of(report));
    const model::SpeedFinding& f = report.findings[0];
    CHECK(f.until > f.since);
    CHECK_MESSAGE(f.ranks.empty(), f.sentence);
    CHECK(f.severity == model::SpeedSeverity::note);
    CHECK_MESSAGE(f.cause == SlowCause::cpu_contention, f.sentence);
  }
}

TEST_CASE("a slow rank stays named when other programs take the CPUs of all ranks later") {
  constexpr int kLoad = 260;
  struct Case {
    int from;   // the rank is slow
    int until;  // and has recovered
    bool named;
  };
  for (const Case one : {Case{0, 10'000, true}, {120, 10'000, true}, {0, 130, false}, {0, kLoad, false}}) {
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      CAPTURE(one.from);
      CAPTURE(one.until);
      CAPTURE(seed);
      std::mt19937 random(seed);
      std::exponential_distribution<double> load(1);
      MadeJob job{.ranks = 3, .steps = 420, .visible_calls = true, .seed = seed};
      job.change = [&](int rank, int step, StepParts& p) {
        p.between += rank == 2 && step >= one.from && step < one.until ? 80 : 0;
        const double wait = load(random);
        p.delay = step >= kLoad ? 60 + 60 * wait * wait * wait : 0;
      };
      const auto report = analyse_speed(tests::make_ranks(job));
      REQUIRE(!report.findings.empty());
      const model::SpeedFinding& first = report.findings[0];
      if (!one.named) {
        for (const model::SpeedFinding& f : report.findings) {
          CHECK_MESSAGE((f.ranks.empty() || f.severity == model::SpeedSeverity::note || f.until >= 0),
                        sentences_of(report));
        }
        continue;
      }
      CHECK_MESSAGE(first.ranks == model::RankSet{2}, sentences_of(report));
      CHECK(first.problem == SpeedProblem::slow_rank);
      CHECK_MESSAGE(first.cause == SlowCause::host_issue, sentences_of(report));
      CHECK(is_costly(first));
      CHECK_MESSAGE(first.lost_s == doctest::Approx(0.080).epsilon(0.1), first.sentence);
      CHECK_MESSAGE((one.from == 0 ? first.since < 0 : std::abs(first.since - one.from) < 15), first.since);
      const auto lack = std::find_if(report.findings.begin(), report.findings.end(), [](const auto& f) {
        return f.problem == SpeedProblem::slower && f.cause == SlowCause::cpu_contention;
      });
      CHECK_MESSAGE(lack != report.findings.end(), sentences_of(report));
    }
  }
}

TEST_CASE("a spell in which all ranks need as much longer is not that of the rank that is slow anyway") {
  for (const bool of_rank : {false, true}) {
    CAPTURE(of_rank);
    MadeJob job{.ranks = 3, .steps = 700, .visible_calls = true, .seed = 4};
    job.change = [of_rank](int rank, int step, StepParts& p) {
      const double factor = step >= 300 && step < 450 ? 2.5 : 1;
      p.between = (rank == 2 ? 60 : 2) * (of_rank && rank == 2 ? 2 * factor : factor);
      p.forward *= of_rank ? 1 : factor;
      p.backward *= of_rank ? 1 : factor;
    };
    const auto report = analyse_speed(tests::make_ranks(job));
    const auto spell = std::find_if(report.findings.begin(), report.findings.end(),
                                    [](const auto& f) { return f.until >= 0; });
    REQUIRE_MESSAGE(spell != report.findings.end(), sentences_of(report));
    CHECK_MESSAGE(spell->ranks == (of_rank ? model::RankSet{2} : model::RankSet{}), sentences_of(report));
    CHECK_MESSAGE(report.findings[0].ranks == model::RankSet{2}, sentences_of(report));
  }
}

TEST_CASE("a rank that was slow before does not become so when all ranks compute as much longer") {
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    MadeJob job{.ranks = 3, .steps = 500, .visible_calls = true, .noise = 0.05, .seed = seed};
    std::mt19937 random(seed);
    std::lognormal_distribution<double> load(0, 0.3);
    job.change = [&](int rank, int step, StepParts& p) {
      const double factor = step < 200 ? 1 : (step < 280 ? 1.8 : 3) * load(random);
      p.between = (rank == 2 ? 120 : 2) * factor;
      p.forward *= factor;
      p.backward *= factor;
      p.delay = step < 200 ? 0 : 100 * load(random);
    };
    const auto report = analyse_speed(tests::make_ranks(job));
    REQUIRE(!report.findings.empty());
    CHECK(report.findings[0].ranks == model::RankSet{2});
    CHECK_MESSAGE(report.findings[0].since < 0, sentences_of(report));
    for (const model::SpeedFinding& f : report.findings) {
      CHECK_MESSAGE((f.problem != SpeedProblem::slower || f.ranks.empty()), sentences_of(report));
    }
  }
}

TEST_CASE(
    "the job is slower since the step from which its rank is slow, not since a change of the machine's "
    "load") {
  MadeJob job{.ranks = 2, .steps = 600, .visible_calls = true, .seed = 3};
  job.change = [](int rank, int step, StepParts& p) {
    p.forward *= step >= 60 ? 1.6 : 1;
    p.backward *= step >= 60 ? 1.6 : 1;
    p.between += rank == 1 ? std::clamp(step - 260, 0, 40) * 1.0 : 0;
  };
  const auto report = analyse_speed(tests::make_ranks(job));
  int64_t since = -1;
  for (const auto& f : report.findings) {
    if (f.ranks == model::RankSet{1}) {
      CHECK_MESSAGE((since < 0 || std::abs(f.since - since) < 41), sentences_of(report));
      since = f.since;
    }
  }
  CHECK(since > 200);
}

TEST_CASE("the steps of a loader with workers, of which each takes another time, have changed at one step") {
  std::vector<double> seconds;
  for (const double ms : tests::kLoaderStepsMs) {
    seconds.push_back(ms * 1e-3);
  }
  const auto changes = find_changes(seconds, SpeedSettings().on_cpus);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].kind == model::ChangeKind::level_shift);
  CHECK(std::abs(changes[0].step - 300) < 3);
}

TEST_CASE("pattern: on CPUs, six slow steps may be chance") {
  std::vector<double> seconds(100, 0.008);
  for (size_t i = 5; i < 100; i += 16) {
    seconds[i] = 0.017;
  }
  CHECK(pattern_of(seconds, {0, 100}).has_value());
  CHECK_FALSE(pattern_of(seconds, {0, 100}, kLeastSlowOnCpus).has_value());
}

TEST_CASE("pattern: on CPUs, many other steps take as long") {
  std::mt19937 random(1);
  std::lognormal_distribution<double> load(0, 0.4);
  std::vector<double> seconds;
  for (size_t i = 0; i < 1000; ++i) {
    seconds.push_back((i % 8 == 3 ? 0.16 : 0.05) * load(random));
  }
  const auto found = pattern_of(seconds, {3, 1000}, kLeastSlowOnCpus);
  REQUIRE(found.has_value());
  CHECK(found->period == 8);
  CHECK(found->slow_s == doctest::Approx(0.16).epsilon(0.1));
  for (double& one : seconds) {
    one = 0.05 * load(random);
  }
  CHECK_FALSE(pattern_of(seconds, {3, 1000}, kLeastSlowOnCpus).has_value());
}

TEST_CASE("pattern: single slow steps before it are no part of it") {
  std::vector<double> seconds(1000, 0.005);
  for (size_t i = 200; i < 1000; i += 10) {
    seconds[i] = 0.3;
  }
  seconds[20] = seconds[80] = 0.009;
  const auto found = pattern_of(seconds, {3, 1000}, kLeastSlowOnCpus);
  REQUIRE(found.has_value());
  CHECK(found->period == 10);
  CHECK(found->since == 200);
}

TEST_CASE(
    "a job on a machine that lacks CPUs for longer than was added to its steps accuses nobody for sure") {
  // All ranks lack a CPU for `starved` ms of each step, and compute for longer from step 300 on.
  const auto judged = [](double starved) {
    MadeJob job{.ranks = 2, .steps = 600, .seed = 6};
    job.change = [](int, int step, StepParts& p) { p.backward += step >= 300 ? 20 : 0; };
    auto ranks = tests::make_ranks(job);
    for (RankRecord& rank : ranks) {
      int64_t delay = 0;
      for (model::LoadSample& load : rank.spans[0].loads) {
        load.run_delay_ns += delay += tests::ms(starved);
      }
    }
    return analyse_speed(ranks);
  };
  for (const double starved : {0.0, 40.0}) {
    CAPTURE(starved);
    const auto report = judged(starved);
    REQUIRE(!report.findings.empty());
    const model::SpeedFinding& f = report.findings[0];
    CHECK(f.problem == SpeedProblem::slower);
    CHECK(f.cause == SlowCause::unknown);
    CHECK_MESSAGE((slowest(report.findings, 60) == nullptr) == (starved > 0), sentences_of(report));
  }
}

TEST_CASE("slow steps of a rank that are over come before a small slowness of all, if they cost more") {
  const model::SpeedFinding spell{.confidence = model::Confidence::medium,
                                  .ranks = {1},
                                  .since = 600,
                                  .until = 900,
                                  .lost_s = 0.06,
                                  .share = 0.8};
  model::SpeedFinding now{.problem = SpeedProblem::slower,
                          .confidence = model::Confidence::high,
                          .since = 600,
                          .lost_s = 0.002,
                          .share = 0.12};
  CHECK(slowest({spell, now}, 90)->until == 900);
  CHECK(slowest({spell, now}, 900)->until < 0);
  now.ranks = {0};
  CHECK(slowest({spell, now}, 90)->until < 0);
}
