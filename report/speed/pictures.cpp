#include "report/speed/pictures.h"

#include "common/base/tr.h"
#include "report/speed/duration_rows.h"
#include "report/speed/primitives/statistics.h"

#include <algorithm>

namespace xpurun::report {

std::vector<model::StepBin> step_bins(std::span<const double> seconds) {
  std::vector<model::StepBin> out;
  const size_t bins = std::min(seconds.size(), kMostBins);
  for (size_t b = 0; b < bins; ++b) {
    const size_t first = b * seconds.size() / bins;
    const size_t last = (b + 1) * seconds.size() / bins;
    std::vector<double> values(seconds.begin() + static_cast<std::ptrdiff_t>(first),
                               seconds.begin() + static_cast<std::ptrdiff_t>(last));
    out.push_back({.first = static_cast<int64_t>(first),
                   .count = static_cast<int64_t>(last - first),
                   .median_s = quantile(values, 0.5),
                   .most_s = *std::max_element(values.begin(), values.end())});
  }
  return out;
}

void put_communication(const JobSteps& job, std::vector<model::StepBin>& bins) {
  for (model::StepBin& bin : bins) {
    double exposed_ns = 0;
    double hidden_ns = 0;
    double known = 0;
    for (size_t r = 0; r < job.ranks(); ++r) {
      for (int64_t i = bin.first; i < bin.first + bin.count; ++i) {
        const StepRecord* step = job.at(r, static_cast<size_t>(i));
        if (step != nullptr && step->exposed_ns >= 0) {
          exposed_ns += static_cast<double>(step->exposed_ns);
          hidden_ns += static_cast<double>(step->hidden_ns);
          ++known;
        }
      }
    }
    if (known > 0) {
      bin.exposed_s = exposed_ns / known * 1e-9;
      bin.hidden_s = hidden_ns / known * 1e-9;
    }
  }
}

model::HeatMap heat_map(const JobSteps& job, const OwnTimes& own) {
  model::HeatMap out{.columns = std::min(own.steps(), kMostHeatColumns),
                     .first_step = 0,
                     .steps = static_cast<int64_t>(own.steps())};
  const size_t rows = std::min(job.ranks(), kMostHeatRows);
  std::vector<size_t> row_of(job.ranks());
  out.rows.resize(rows);
  for (size_t r = 0; r < job.ranks(); ++r) {
    row_of[r] = r * rows / job.ranks();
    out.rows[row_of[r]].insert(job.rank(r).rank);
  }
  std::vector<double> sums(rows * out.columns, 0);
  std::vector<size_t> counts(rows * out.columns, 0);
  for (size_t i = 0; i < own.steps(); ++i) {
    const size_t column = i * out.columns / own.steps();
    const auto step = own.step(i);
    for (size_t r = 0; r < step.size(); ++r) {
      if (step[r] >= 0) {
        sums[row_of[r] * out.columns + column] += static_cast<double>(step[r]);
        ++counts[row_of[r] * out.columns + column];
      }
    }
  }
  out.own_s.assign(rows * out.columns, -1);
  for (size_t i = 0; i < sums.size(); ++i) {
    if (counts[i] > 0) {
      out.own_s[i] = static_cast<float>(sums[i] / static_cast<double>(counts[i]));
    }
  }
  return out;
}

model::DurationRow step_durations(const JobSteps& job, const std::vector<size_t>& usual) {
  model::DurationRow out{.name = std::string(base::later("step"))};
  for (size_t r = 0; r < job.ranks(); ++r) {
    std::vector<double> seconds;
    for (const size_t step : usual) {
      if (const StepRecord* record = job.at(r, step)) {
        seconds.push_back(working_seconds(*record));
      }
    }
    if (!seconds.empty()) {
      out.ranks.push_back(rank_durations(job.rank(r).rank, seconds));
    }
  }
  keep_unusual(out.ranks);
  return out;
}

int64_t step_begin_ns(const JobSteps& job, size_t step) {
  for (size_t r = 0; r < job.ranks(); ++r) {
    if (const StepRecord* record = job.at(r, step)) {
      return record->begin_ns;
    }
  }
  return 0;
}

void put_times(const JobSteps& job, model::SpeedReport& report) {
  report.first_wall_ns = step_begin_ns(job, 0);
  for (size_t r = 0; r < job.ranks(); ++r) {
    if (const StepRecord* last = job.at(r, job.steps() - 1)) {
      report.last_wall_ns = std::max(report.last_wall_ns, last->begin_ns + last->duration_ns);
    }
  }
  for (model::StepBin& bin : report.series) {
    bin.wall_ns = step_begin_ns(job, static_cast<size_t>(bin.first));
  }
  for (model::StepChange& change : report.changes) {
    change.wall_ns = step_begin_ns(job, static_cast<size_t>(change.step));
  }
}

}  // namespace xpurun::report
