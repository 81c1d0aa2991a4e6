// The step clock, on simulated hosts that run ahead of their GPUs (queued_job.h).
#include "report/speed/clock/step_clock.h"

#include "queued_job.h"
#include "report/speed/analysis.h"
#include "report/speed/patterns.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <span>
#include <vector>

using namespace xpurun;
using namespace xpurun::report;
using model::ClockSource;
using model::SpeedProblem;
using model::SpeedReport;
using tests::QueuedJob;
using tests::QueuedRun;
using tests::QueuedStep;

namespace {

constexpr int kReads[] = {1, 2, 10, 50, 200};

SpeedReport analysed(const QueuedRun& run) {
  return analyse_speed(run.ranks);
}

// Own time and waits are the step, or the analysis says that it does not know.
void check_sum(const SpeedReport& report) {
  for (const model::RankSpeed& rank : report.ranks) {
    if (report.waits_measured && rank.own_s >= 0 && report.confidence == model::Confidence::high) {
      CHECK(rank.own_s + rank.wait_s == doctest::Approx(report.step_s).epsilon(0.05));
    }
  }
}

}  // namespace

TEST_CASE("step clock: a step is as long as it is on the GPU, however often the loss is read") {
  for (const int every : kReads) {
    CAPTURE(every);
    const QueuedJob job{.read_every = every};
    const QueuedRun run = tests::simulate(job);
    const SpeedReport report = analysed(run);
    CHECK(report.clock == ClockSource::gpu);
    CHECK(report.step_s * 1e3 == doctest::Approx(run.step_ms(10, 390)).epsilon(0.01));
    CHECK(report.findings.empty());
    CHECK(report.changes.empty());
    check_sum(report);
  }
}

TEST_CASE("step clock: without a time of the GPU for each step, windows show the length of a step") {
  for (const int every : {1, 2, 10, 50}) {
    CAPTURE(every);
    const QueuedJob job{.read_every = every, .first_timed = false};
    const QueuedRun run = tests::simulate(job);
    const SpeedReport report = analysed(run);
    CHECK(report.step_s * 1e3 == doctest::Approx(run.step_ms(10, 390)).epsilon(0.03));
    CHECK((report.clock == ClockSource::windows || every == 1));
    CHECK((report.confidence < model::Confidence::high || every == 1));
  }
}

TEST_CASE("step clock: the rank and the size come out, whatever the host does") {
  struct Cause {
    const char* name;
    model::SlowCause kind;
    std::function<void(QueuedStep&)> apply;
  };
  const Cause causes[] = {
      {"twice the batch", model::SlowCause::more_work,
       [](QueuedStep& s) {
         s.gpu *= 1.8;
         s.rows = 4096;
       }},
      {"three forward passes", model::SlowCause::more_work, [](QueuedStep& s) { s.passes = 3; }},
      {"shared GPU", model::SlowCause::gpu_compute, [](QueuedStep& s) { s.gpu *= 1.8; }},
      {"a little slower", model::SlowCause::gpu_compute, [](QueuedStep& s) { s.gpu *= 1.15; }},
      {"Python before the forward pass", model::SlowCause::host_issue, [](QueuedStep& s) { s.before = 45; }},
      {"reads a value twenty times", model::SlowCause::host_issue,
       [](QueuedStep& s) {
         s.stops = 20;
         s.host = 15;
       }},
  };
  for (const Cause& cause : causes) {
    for (const int since : {0, 200}) {
      for (const int every : {1, 10, 50, 200}) {
        CAPTURE(cause.name);
        CAPTURE(since);
        CAPTURE(every);
        QueuedJob job{.ranks = 3, .steps = 500, .read_every = every};
        job.change = [&](int rank, int step, QueuedStep& s) {
          if (rank == 1 && step >= since) {
            cause.apply(s);
          }
        };
        const QueuedRun run = tests::simulate(job);
        const SpeedReport report = analysed(run);
        const double truth = run.usual_ms(static_cast<size_t>(since) + 20, 480);
        CHECK(report.step_s * 1e3 == doctest::Approx(truth).epsilon(0.02));
        REQUIRE_FALSE(report.findings.empty());
        const model::SpeedFinding& first = report.findings.front();
        CAPTURE(first.sentence);
        CHECK(first.problem == SpeedProblem::slow_rank);
        CHECK(first.cause == cause.kind);
        CHECK(first.ranks.brief() == "1");
        CHECK(first.lost_s * 1e3 == doctest::Approx(truth - 29.2).epsilon(0.25));
        if (since > 0) {
          CHECK(std::abs(first.since - since) <= 3);
        } else {
          CHECK(first.since < 0);
        }
        check_sum(report);
      }
    }
  }
}

// The GPUs of the other ranks wait for the slow one while their own hosts are not ready.
TEST_CASE("step clock: where the hosts are the limit, a rank costs no more than its host is later") {
  for (const int since : {0, 200}) {
    for (const int every : {1, 10, 50}) {
      CAPTURE(since);
      CAPTURE(every);
      QueuedJob job{.ranks = 3, .steps = 500, .read_every = every};
      job.change = [&](int rank, int step, QueuedStep& s) {
        s.host = 1;
        s.gpu = 10;
        s.asleep = rank == 1 && step >= since ? 24 : 20;
      };
      const SpeedReport report = analysed(tests::simulate(job));
      REQUIRE_FALSE(report.findings.empty());
      const model::SpeedFinding& first = report.findings.front();
      CAPTURE(first.sentence);
      CHECK(first.ranks.brief() == "1");
      CHECK(first.lost_s * 1e3 == doctest::Approx(4).epsilon(0.3));
      check_sum(report);
    }
  }
}

TEST_CASE("step clock: where the hosts are the limit, one that differs by little costs little") {
  for (const int every : {10, 50}) {
    CAPTURE(every);
    QueuedJob job{.ranks = 2, .steps = 500, .read_every = every};
    job.change = [&](int rank, int, QueuedStep& s) {
      s.host = 1;
      s.gpu = 10;
      s.asleep = rank == 1 ? 20.5 : 20;
    };
    for (const model::SpeedFinding& finding : analysed(tests::simulate(job)).findings) {
      CAPTURE(finding.sentence);
      CHECK(finding.share < 0.08);
    }
  }
}

// The host of the other rank is held in each step, by a full queue.
TEST_CASE("step clock: a rank that does not run ahead waits for the slow one") {
  QueuedJob job{.steps = 500, .read_every = 1000, .queue = 60};
  job.change = [](int rank, int, QueuedStep& s) { s.asleep = rank == 1 ? 200 : 0; };
  const SpeedReport report = analysed(tests::simulate(job));
  REQUIRE_FALSE(report.findings.empty());
  CAPTURE(report.findings.front().sentence);
  CHECK(report.findings.front().ranks.brief() == "1");
  CHECK(report.findings.front().lost_s * 1e3 == doctest::Approx(175).epsilon(0.1));
}

TEST_CASE("step clock: a spell of slow steps is told with its begin and its end") {
  for (const int every : {1, 10, 50}) {
    CAPTURE(every);
    QueuedJob job{.steps = 400, .read_every = every};
    job.change = [](int rank, int step, QueuedStep& s) {
      s.gpu *= rank == 1 && step >= 150 && step < 210 ? 2 : 1;
    };
    const SpeedReport report = analysed(tests::simulate(job));
    REQUIRE(report.findings.size() == 1);
    const model::SpeedFinding& spell = report.findings.front();
    CAPTURE(spell.sentence);
    CHECK(std::abs(spell.since - 150) <= 3);
    CHECK(std::abs(spell.until - 210) <= 3);
    CHECK(spell.ranks.brief() == "1");
    CHECK(report.step_s * 1e3 == doctest::Approx(28.4).epsilon(0.02));
  }
}

TEST_CASE("step clock: an imbalance that wanders blames nobody") {
  for (const int every : {1, 10, 50}) {
    CAPTURE(every);
    QueuedJob job{.ranks = 4, .steps = 500, .read_every = every};
    job.change = [](int rank, int step, QueuedStep& s) { s.gpu *= (step / 3) % 4 == rank ? 1.1 : 1; };
    const SpeedReport report = analysed(tests::simulate(job));
    CHECK(report.findings.empty());
    CHECK(report.changes.empty());
  }
}

TEST_CASE("step clock: a running job's steps are those of the finished one") {
  // The same object, fed with what arrives late and out of order.
  StepClock clock;
  clock.uses_gpu();
  std::vector<ClockedStep> steps;
  for (int64_t i = 0; i < 200; ++i) {
    clock.ended({.begin_ns = i * 3'000'000, .end_ns = (i + 1) * 3'000'000});
    if (i >= 20) {
      const int64_t late = i - 20;
      clock.started({.called_ns = late * 3'000'000 + 1'000'000,
                     .begin_ns = late * 30'000'000 + 5'000'000,
                     .kind = 1,
                     .collective = true,
                     .first_of_step = true});
    }
    const auto some = clock.take();
    steps.insert(steps.end(), some.begin(), some.end());
  }
  REQUIRE(steps.size() == 179);
  for (const ClockedStep& step : steps) {
    CHECK(step.duration_ns == 30'000'000);
    CHECK(step.source == ClockSource::gpu);
  }
}

TEST_CASE("step clock: a rank with more calls of the same matmuls, compared with the others") {
  QueuedJob job{.ranks = 3};
  job.change = [](int rank, int, QueuedStep& s) { s.passes = rank == 1 ? 3 : 1; };
  const SpeedReport report = analysed(tests::simulate(job));
  REQUIRE_FALSE(report.findings.empty());
  CHECK_MESSAGE(report.findings[0].sentence.ends_with("it has 36 matmuls a step, the other ranks 20"),
                report.findings[0].sentence);
}

TEST_CASE("pattern: a busy machine slows other steps too") {
  std::vector<double> seconds;
  for (size_t i = 0; i < 300; ++i) {
    seconds.push_back(i % 10 == 9 ? 0.175 : i % 17 == 3 || i == 100 ? 0.14 : 0.085);
  }
  const auto found = pattern_of(seconds, {3, 300});
  REQUIRE(found.has_value());
  CHECK(found->period == 10);
  CHECK(found->slow.size() == 35);  // with five neighbours
  for (size_t i = 9; i < 300; i += 10) {
    CHECK(std::binary_search(found->slow.begin(), found->slow.end(), i));
  }
  CHECK(found->slow_s == 0.175);
  CHECK(found->since == -1);
  CHECK(found->usual_s == 0.085);
  // Slow steps without a period.
  for (size_t i = 0; i < seconds.size(); ++i) {
    seconds[i] = i * i % 37 < 6 ? 0.175 : 0.085;
  }
  CHECK_FALSE(pattern_of(std::span(seconds).first(36), {0, 36}).has_value());
}

TEST_CASE("pattern: steps that are slow without a rule have none") {
  int found = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    std::bernoulli_distribution slow(0.02 * (1 + seed % 8));
    std::vector<double> seconds(100 + seed % 3 * 100);
    std::generate(seconds.begin(), seconds.end(), [&] { return slow(random) ? 0.014 : 0.008; });
    found += pattern_of(seconds, {0, seconds.size()}).has_value() ? 1 : 0;
  }
  CHECK_MESSAGE(found <= 4, found);  // seeds are fixed
}

TEST_CASE("pattern: more than a tenth of the other steps are slow, but less so") {
  std::vector<double> seconds;
  for (size_t i = 0; i < 300; ++i) {
    seconds.push_back(i % 10 == 9 ? 0.43 : i * 7919 % 101 < 20 ? 0.05 : 0.026);
  }
  const auto found = pattern_of(seconds, {3, 300});
  REQUIRE(found.has_value());
  CHECK(found->period == 10);
  CHECK(found->slow_s == doctest::Approx(0.43));
}

TEST_CASE("step clock: a rank that is slow in every tenth step is named with the pattern") {
  for (const int every : {1, 50}) {
    CAPTURE(every);
    QueuedJob job{.steps = 500, .read_every = every};
    job.change = [](int rank, int step, QueuedStep& s) { s.gpu *= rank == 1 && step % 10 == 7 ? 3 : 1; };
    const SpeedReport report = analysed(tests::simulate(job));
    REQUIRE(report.findings.size() == 1);
    CHECK(report.findings[0].ranks.brief() == "1");
    CHECK(report.findings[0].sentence.find("in every 10th step") != std::string::npos);
    CHECK(report.findings[0].lost_s * 1e3 == doctest::Approx(5.6).epsilon(0.2));
  }
  // From one step on, on eight ranks, of which each waits where the next step begins.
  QueuedJob later{.ranks = 8, .steps = 300, .read_every = 1};
  later.change = [](int rank, int step, QueuedStep& s) {
    s.before = rank == 5 && step >= 130 && step % 8 == 7 ? 45 : 0;
  };
  const SpeedReport report = analysed(tests::simulate(later));
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].ranks.brief() == "5");
  CHECK(report.findings[0].sentence.find("in every 8th step") != std::string::npos);
  CHECK(std::abs(report.findings[0].since - 135) <= 2);
  // A checkpoint that one rank alone writes.
  QueuedJob writes{.steps = 400, .read_every = 1};
  writes.change = [](int rank, int step, QueuedStep& s) {
    s.writes = rank == 1 && step >= 130 && step % 4 == 3 ? 120 : 0;
  };
  const SpeedReport written = analysed(tests::simulate(writes));
  REQUIRE(!written.findings.empty());
  CHECK(written.findings[0].period == 4);
  CHECK(written.findings[0].ranks.brief() == "1");
  CHECK(written.findings[0].cause == model::SlowCause::checkpoint);
  CHECK_MESSAGE(written.findings[0].sentence.ends_with("; it writes checkpoints (train.py:40 (main))"),
                written.findings[0].sentence);
  // All ranks: an evaluation, for all that is known.
  QueuedJob job{.steps = 500};
  job.change = [](int, int step, QueuedStep& s) { s.gpu *= step % 10 == 7 ? 3 : 1; };
  CHECK(analysed(tests::simulate(job)).findings.empty());
}
