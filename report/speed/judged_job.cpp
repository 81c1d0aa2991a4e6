#include "report/speed/judged_job.h"

#include "report/speed/job_table.h"
#include "report/speed/pictures.h"
#include "report/speed/wording.h"

#include <algorithm>

namespace xpurun::report {

namespace {

using model::Confidence;

constexpr size_t kLeastStepsAfter = 20;
constexpr size_t kWellKnown = 12;  // steps with known waits, for a certain blame

}  // namespace

Confidence lower(Confidence a, Confidence b) {
  return std::min(a, b);
}

JudgedJob::JudgedJob(JobSteps& of, model::SpeedReport& report, const std::vector<double>& step_seconds,
                     const std::vector<size_t>& usual_steps, const ChangeSettings& change_settings,
                     base::Language spoken)
    : job(of),
      out(report),
      seconds(step_seconds),
      usual(usual_steps),
      own(of, report.waits_measured),
      settings(change_settings),
      language(spoken) {
  for (size_t r = 0; r < job.ranks(); ++r) {
    hosts.push_back(job.rank(r).host);
  }
}

size_t JudgedJob::least_after() const {
  return std::max(kLeastStepsAfter, settings.least_after);
}

Confidence JudgedJob::certainty() const {
  const bool gpu = !on_cpus(job);
  bool cpu = true;
  for (size_t r = 0; r < job.ranks(); ++r) {
    cpu = cpu && job.rank(r).cpu_known;
  }
  const bool well_known = measured_steps >= std::min(kWellKnown, window.size());
  const Confidence waits = out.waits_measured && !inferred
                               ? (well_known ? Confidence::high : Confidence::medium)
                           : cpu && !gpu ? Confidence::medium
                                         : Confidence::low;
  return lower(waits, out.confidence);
}

bool JudgedJob::is_seen(const Blame& blame, StepWindow in) const {
  const std::vector<RankMeans> of_window = rank_means(job, own, in);
  return seen_on_host(cause_of(job, {in, of_window}, blame, nullptr));
}

int64_t JudgedJob::begin_of(int64_t step) const {
  return step < 0 ? 0 : step_begin_ns(job, static_cast<size_t>(step));
}

model::RankSet JudgedJob::set_of(const std::vector<size_t>& ranks) const {
  std::vector<base::Rank> numbers;
  for (const size_t r : ranks) {
    numbers.push_back(job.rank(r).rank);
  }
  return model::RankSet::of(numbers);
}

std::string JudgedJob::waiting_place(const Blame& blame) const {
  for (size_t r = 0; r < job.ranks(); ++r) {
    if (std::binary_search(blame.ranks.begin(), blame.ranks.end(), r)) {
      continue;
    }
    const RankSteps& rank = job.rank(r);
    const auto calls = static_cast<size_t>(model::Stage::communication);
    const bool in_calls = means[r].stages[model::Stage::communication] >= means[r].wait_s / 2;
    return out.waits_measured && !inferred && in_calls ? call_words(rank.names[calls], rank.places[calls])
           : rank.gpu.empty()                          ? base::tr("the backward pass")
                                                       : "";
  }
  return "";
}

void JudgedJob::put_loss(model::SpeedFinding& f, double lost_s, double mean_s, double usual_s) const {
  f.share = mean_s > 0 ? std::min(lost_s / mean_s, 1.0) : 0;
  f.lost_s = f.share * usual_s;
}

void JudgedJob::put_what_if(const model::SpeedFinding& f) const {
  if (f.cause == model::SlowCause::unknown) {
    return;
  }
  std::erase_if(out.what_if, [&f](const auto& one) { return one.cause == f.cause; });
  out.what_if.push_back({.cause = f.cause, .share = f.share});
  std::sort(out.what_if.begin(), out.what_if.end(),
            [](const auto& a, const auto& b) { return a.share > b.share; });
}

}  // namespace xpurun::report
