// Stages of a pipeline on GPUs whose hosts run ahead: messages are timed in six of 32 steps.
#include "queued_pipeline.h"
#include "report/speed/analysis.h"

#include <doctest/doctest.h>

#include <functional>

using namespace xpurun;
using namespace xpurun::report;
using model::SlowCause;
using model::SpeedProblem;
using model::SpeedReport;
using tests::PipelineRun;
using tests::QueuedPipeline;
using tests::StageStep;

namespace {

constexpr int kFault = 130;

struct StageFault {
  const char* name;
  SlowCause kind;
  std::function<void(StageStep&)> apply;
  bool hidden = false;  // by a host that runs ahead
};

const StageFault kFaults[] = {
    {"more work before the first micro-batch", SlowCause::more_work, [](StageStep& s) { s.extra = 60; }},
    {"more calls of the same matmuls", SlowCause::more_work,
     [](StageStep& s) {
       s.extra = 60;
       s.extra_calls = 60;
       s.extra_rows = 2048;
     }},
    {"slow GPU", SlowCause::gpu_compute, [](StageStep& s) { s.forward *= 1.5; }},
    {"input", SlowCause::input, [](StageStep& s) { s.input = 130; }},
    {"Python", SlowCause::host_issue, [](StageStep& s) { s.before = 130; }},
    {"reads of values", SlowCause::host_issue,
     [](StageStep& s) {
       s.reads = 60;
       s.before = 100;
     }},
};

// Own time and waits are the step, or the analysis says that it is not certain.
void check_parts(const SpeedReport& report, double step_ms) {
  for (const model::RankSpeed& rank : report.ranks) {
    if (report.confidence == model::Confidence::high) {
      CHECK((rank.own_s + rank.wait_s) * 1e3 == doctest::Approx(step_ms).epsilon(0.05));
    }
  }
}

}  // namespace

TEST_CASE("pipeline on GPUs: the slow stage is named, whatever the hosts do") {
  for (const auto& shape : {std::pair(2, 1), std::pair(4, 1), std::pair(2, 2)}) {
    const int stages = shape.first;
    const int tensor = shape.second;
    for (const StageFault& fault : kFaults) {
      for (const int every : {1, 10, 50}) {
        for (const int slow : {0, stages * tensor - 1}) {
          INFO(std::string(fault.name), ", stages ", stages, ", tensor ", tensor, ", read every ", every,
               ", rank ", slow);
          QueuedPipeline job{.stages = stages, .tensor = tensor, .read_every = every};
          job.change = [&](int rank, int step, StageStep& s) {
            if (rank == slow && step >= kFault) {
              fault.apply(s);
            }
          };
          const PipelineRun run = tests::simulate(job);
          const double before = run.step_ms(10, 125);
          const double after = run.step_ms(200, 298);
          const SpeedReport report = analyse_speed(run.ranks);
          CHECK(report.step_s * 1e3 == doctest::Approx(run.usual_ms(200, 298)).epsilon(0.02));
          check_parts(report, after);
          if (after < 1.05 * before) {
            CHECK_MESSAGE(report.findings.empty(), report.sentence);  // the lead or the bubble hides it
            continue;
          }
          REQUIRE_MESSAGE(!report.findings.empty(), report.sentence << " " << before << " " << after);
          const model::SpeedFinding& first = report.findings[0];
          CHECK_MESSAGE(first.problem == SpeedProblem::slow_rank, first.sentence);
          CHECK_MESSAGE(first.ranks == model::RankSet{slow}, first.sentence);
          CHECK_MESSAGE(first.cause == fault.kind, first.sentence);
          CHECK(first.since >= kFault - 3);
          CHECK(first.since <= kFault + 60);
          CHECK(first.lost_s * 1e3 <= 1.1 * (after - before));
          CHECK(first.lost_s * 1e3 >= 0.5 * (after - before));
        }
      }
    }
  }
}

TEST_CASE("pipeline on GPUs: stages that differ by nature are not slow") {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    for (const double last : {4.0, 5.0, 7.0}) {
      CAPTURE(last);
      QueuedPipeline job{.stages = 2 + static_cast<int>(seed % 3), .seed = seed};
      job.change = [&](int rank, int, StageStep& s) {
        s.forward = rank == job.stages - 1 ? last : s.forward;
      };
      const SpeedReport report = analyse_speed(tests::simulate(job).ranks);
      CHECK(report.waits_measured);
      CHECK_MESSAGE(report.findings.empty(), report.findings[0].sentence);
    }
  }
}

TEST_CASE("pipeline on GPUs: a slow rank beside the others of its stage, from the first step on") {
  QueuedPipeline job{.stages = 2, .tensor = 3};
  job.change = [](int rank, int, StageStep& s) { s.forward = rank == 4 ? 6 : rank > 2 ? 4.5 : 4; };
  const SpeedReport report = analyse_speed(tests::simulate(job).ranks);
  REQUIRE(!report.findings.empty());
  CHECK_MESSAGE(report.findings[0].ranks == model::RankSet{4}, report.findings[0].sentence);
}
