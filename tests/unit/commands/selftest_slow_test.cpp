#include "commands/selftest/slow_trial.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

model::SpeedReport slow_rank() {
  model::SpeedReport out;
  out.source = model::StepSource::optimizer;
  out.changes = {{.step = 131, .found_step = 142}};
  out.findings = {{.problem = model::SpeedProblem::slow_rank,
                   .cause = model::SlowCause::input,
                   .confidence = model::Confidence::medium,
                   .ranks = {1},
                   .since = 131,
                   .lost_s = 0.02,
                   .share = 0.2,
                   .sentence = "rank 1 costs 20 % of every step"},
                  {.problem = model::SpeedProblem::slower, .since = 131, .sentence = "the job is slower"}};
  return out;
}

}  // namespace

TEST_CASE("slow jobs: what makes the job slow is the verdict") {
  const model::Verdict given = slow_verdict(slow_rank(), 60);
  CHECK(given.id == "slow_rank.input");
  CHECK(given.ranks == model::RankSet{1});
  CHECK(given.sentence == "rank 1 costs 20 % of every step");
  CHECK(given.evidence.size() == 2);
}

TEST_CASE("slow jobs: notes are no verdict") {
  model::SpeedReport report = slow_rank();
  for (model::SpeedFinding& finding : report.findings) {
    finding.severity = model::SpeedSeverity::note;
  }
  report.sentence = "nothing is slow";
  CHECK(slow_verdict(report, 60).id == "none.not_slow");
  CHECK(slow_verdict(report, 60).sentence == "nothing is slow");
  CHECK(slow_verdict(report, 60).ranks.empty());
}

TEST_CASE("slow jobs: a warning that costs too little for a verdict of a run is none here either") {
  model::SpeedReport report = slow_rank();
  report.findings.resize(1);
  report.findings[0].share = 0.08;
  CHECK(slow_verdict(report, 60).id == "none.not_slow");
  report.findings[0] = slow_rank().findings[0];
  report.findings[0].confidence = model::Confidence::low;
  CHECK(slow_verdict(report, 60).id == "none.not_slow");
  report.findings[0].confidence = model::Confidence::medium;
  report.findings[0].problem = model::SpeedProblem::cause;
  CHECK(slow_verdict(report, 60).id == "none.not_slow");
}

TEST_CASE("slow jobs: the beginning must be that of the fault") {
  model::SpeedReport report = slow_rank();
  CHECK(slow_differences(report, {}, 130, 60).empty());
  CHECK(slow_differences(report, {{.step = 133}}, 130, 60).empty());
  CHECK(steps_to_find(report, 130) == 12);
  report.findings[0].since = 60;
  CHECK(slow_differences(report, {}, 130, 60) == std::vector<std::string>{"since step 60 instead of 130"});
  report.findings[0].since = -1;
  CHECK(slow_differences(report, {}, 130, 60).size() == 1);
  CHECK(steps_to_find(report, 300) == -1);
}

TEST_CASE("slow jobs: a healthy job must not be reported as slower, and must have steps") {
  model::SpeedReport report;
  report.source = model::StepSource::optimizer;
  CHECK(slow_differences(report, {}, -1, 60).empty());
  CHECK(steps_to_find(report, -1) == -1);
  CHECK(slow_differences(report, {{.step = 50}}, -1, 60) ==
        std::vector<std::string>{"while the job ran, step 50 was reported as slower"});
  report.source = model::StepSource::none;
  report.why = "no optimizer";
  CHECK(slow_differences(report, {}, -1, 60) == std::vector<std::string>{"no stable step: no optimizer"});
}

TEST_CASE("slow jobs: the table") {
  const auto jobs = slow_jobs();
  CHECK(std::count_if(jobs.begin(), jobs.end(), [](const Injection& one) { return one.needs_gpu; }) == 3);
  for (const Injection& job : jobs) {
    CHECK(job.slow);
    CHECK(find_injection(job.name) != nullptr);
  }
}
