#include "report/speed/analysis.h"

#include "common/base/tr.h"
#include "report/speed/job_table.h"
#include "report/speed/judge.h"
#include "report/speed/levels.h"
#include "report/speed/pictures.h"
#include "report/speed/steps/step_records.h"
#include "report/speed/wording.h"

#include <algorithm>
#include <utility>

namespace xpurun::report {

namespace {

// The ranks need not agree; the least certain counts.
void put_source(const JobSteps& job, model::SpeedReport& out) {
  bool first = true;
  double measured = 0;
  for (size_t r = 0; r < job.ranks(); ++r) {
    const RankSteps& rank = job.rank(r);
    if (rank.steps.empty()) {
      out.why = out.why.empty() ? rank.why : out.why;
      continue;
    }
    if (first || rank.confidence < out.confidence) {
      out.confidence = rank.confidence;
      out.why = rank.why;
      out.source = rank.source;
    }
    // The least certain clock counts, as long as it is one.
    const bool first_clock = out.clock == model::ClockSource::none;
    out.clock = first_clock || rank.clock < out.clock ? rank.clock : out.clock;
    out.clock_steps += rank.clock_steps;
    ++measured;
    first = false;
  }
  out.clock_steps = measured > 0 ? out.clock_steps / measured : 0;
  if (job.ranks() == 0) {
    out.why = base::later("no rank has spans or timed calls");
  }
}

}  // namespace

SpeedAnalysis::SpeedAnalysis(size_t expected_ranks, SpeedSettings settings)
    : most_arrivals_(settings.most_arrivals / std::max<size_t>(expected_ranks, 1)), settings_(settings) {}

void SpeedAnalysis::add(const RankRecord& rank) {
  ranks_.push_back(steps_of(rank, most_arrivals_));
  functions_.push_back(functions_of(rank));
}

model::SpeedReport SpeedAnalysis::finish(StepTable* table) {
  model::SpeedReport out;
  out.functions = function_times(functions_);
  JobSteps job(std::move(ranks_));
  put_source(job, out);
  if (table != nullptr) {
    *table = without_steps(job);
  }
  if (job.steps() == 0) {
    out.sentence = summary_sentence(out);
    return out;
  }
  out.waits_measured = measure_waits(job);
  const std::vector<double> seconds = job.step_seconds();
  const ChangeSettings changes = on_cpus(job) ? settings_.on_cpus : settings_.on_gpus;
  ChangeDetector detector(changes);
  const std::vector<size_t> usual = job.usual_steps();
  for (const size_t step : usual) {
    if (auto change = detector.add(seconds[step])) {
      const size_t index = std::min(static_cast<size_t>(change->step), usual.size() - 1);
      for (int64_t* of : {&change->step, &change->found_step}) {
        *of = static_cast<int64_t>(usual[std::min(static_cast<size_t>(*of), usual.size() - 1)]);
      }
      // The steps in between took part in a look or a capture.
      if (change->kind == model::ChangeKind::level_shift && index > 0 &&
          usual[index] > usual[index - 1] + 1) {
        change->step = static_cast<int64_t>(changed_within(seconds, *change, usual[index - 1] + 1));
      }
      add_change(out.changes, *change);
    }
  }
  out.steps = static_cast<int64_t>(seconds.size());
  out.spikes = static_cast<int64_t>(detector.spikes());
  out.pauses = static_cast<int64_t>(detector.pauses());
  put_times(job, out);
  judge(job, out, {.seconds = seconds, .usual = usual}, changes, settings_.language);
  out.series = step_bins(seconds);
  put_communication(job, out.series);
  out.operations.durations.push_back(step_durations(job, usual));
  if (table != nullptr) {
    *table = table_of(job, out, seconds);
  }
  out.sentence = summary_sentence(out);
  return out;
}

model::SpeedReport analyse_speed(const std::vector<RankRecord>& ranks, SpeedSettings settings) {
  SpeedAnalysis analysis(ranks.size(), settings);
  for (const RankRecord& rank : ranks) {
    analysis.add(rank);
  }
  return analysis.finish();
}

}  // namespace xpurun::report
