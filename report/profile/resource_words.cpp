#include "report/profile/resource_words.h"

#include "common/base/strings.h"
#include "report/profile/duration_words.h"
#include "report/profile/resource_sums.h"
#include "report/speed/primitives/statistics.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace xpurun::report {

using model::RankActivity;
using model::ResourceSampling;
using model::SamplingStatus;

namespace {

constexpr size_t kMostRanksNamed = 8;

std::string ranks_at_front(const model::RankSet& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "Rank" : "Ranks", ranks.brief());
}

std::string why_not(SamplingStatus status, const std::string& reason) {
  switch (status) {
    case SamplingStatus::none:
    case SamplingStatus::complete:
      return "";
    case SamplingStatus::overflow:
      return "the buffer of the hardware counters was full at times, which have no samples";
    case SamplingStatus::off:
      return fmt::format("no hardware counters: switched off by {}=0", wire::kSamplingEnv);
    case SamplingStatus::no_functions:
      return "no hardware counters: this CUPTI is older than that of CUDA 12.6";
    case SamplingStatus::no_permission:
      return "no hardware counters: the driver allows them to the superuser only (NVIDIA's option "
             "NVreg_RestrictProfilingToAdminUsers)";
    case SamplingStatus::busy:
      return "no hardware counters: another process reads those of this GPU (another rank, Nsight, DCGM)";
    case SamplingStatus::not_supported:
      return "no hardware counters: CUPTI does not sample this GPU here" +
             (reason.empty() ? "" : " (" + base::sanitize(reason) + ")");
    case SamplingStatus::no_metrics:
      return "no hardware counters: this GPU gives none of the known ones";
    case SamplingStatus::refused:
    case SamplingStatus::failed:
      return base::sanitize(reason);
  }
  return "";
}

std::string problem_words(const ResourceSampling& s) {
  const bool fails = s.status == SamplingStatus::refused || s.status == SamplingStatus::failed;
  std::string why = why_not(s.status, s.reason);
  if (fails) {
    why = (s.file.empty() ? "no hardware counters: " : "the hardware counters end early: ") + why;
  } else if (s.status == SamplingStatus::complete && s.samples == 0) {
    why = "no hardware counters: no sample came";
  }
  return why;
}

std::string amount_of(const ResourceSampling& s) {
  std::string out;
  for (const model::ResourceUse& use : s.resources) {
    if (use.mean >= 0) {
      out += fmt::format("{}{} {} (spread {})", out.empty() ? "" : ", ", model::title_of(use.resource),
                         resource_amount(use.resource, use.mean), resource_amount(use.resource, use.spread));
    }
  }
  return out;
}

std::string sampled_words(const model::GpuCapture& capture) {
  uint64_t samples = 0;
  model::RankSet ranks;
  std::vector<double> interval;
  std::vector<double> setup;
  std::vector<double> handling;
  std::vector<double> stop;
  for (const RankActivity& r : capture.ranks) {
    if (r.sampling.samples > 0 && !r.sampling.file.empty()) {
      samples += r.sampling.samples;
      ranks.insert(r.rank);
      interval.push_back(r.sampling.interval_s);
      setup.push_back(r.sampling.setup_s);
      handling.push_back(r.sampling.seconds > 0 ? r.sampling.handling_s / r.sampling.seconds : 0);
      stop.push_back(r.sampling.stop_s);
    }
  }
  if (ranks.empty()) {
    return "";
  }
  return fmt::format(
      "Hardware counters: {} samples of {} {}, {} each; reading them took {:.0f} % of a thread of the rank, "
      "{} "
      "to begin (before the recording) and {} to end.",
      samples, ranks.size() == 1 ? "rank" : "ranks", ranks.brief(), work_duration(median(interval)),
      100 * median(handling), work_duration(median(setup)), work_duration(median(stop)));
}

}  // namespace

std::string resource_amount(wire::Resource resource, double value) {
  if (value < 0) {
    return "";
  }
  if (model::is_share(resource)) {
    return fmt::format("{:.1f} %", 100 * value);
  }
  return value < 1e9 ? fmt::format("{:.1f} MB/s", value / 1e6) : fmt::format("{:.1f} GB/s", value / 1e9);
}

std::string fitting_words(const model::CapturedWork& work) {
  const model::ResourceUse* use = find_use(work.resources, work.resource);
  return use == nullptr ? ""
                        : fmt::format("{} {} (spread {})", model::title_of(use->resource),
                                      resource_amount(use->resource, use->mean),
                                      resource_amount(use->resource, use->spread));
}

std::vector<std::string> resource_sentences(const model::GpuCapture& capture) {
  std::vector<std::string> out;
  if (std::string sentence = sampled_words(capture); !sentence.empty()) {
    out.push_back(std::move(sentence));
  }
  size_t reported = 0;
  size_t left_out = 0;
  std::map<std::string, model::RankSet> problems;
  for (const RankActivity& r : capture.ranks) {
    if (const std::string amounts = amount_of(r.sampling); !amounts.empty()) {
      if (reported < kMostRanksNamed) {
        out.push_back(fmt::format("Rank {}: {}.", r.rank, amounts));
        ++reported;
      } else {
        ++left_out;
      }
    }
    if (const std::string problem = problem_words(r.sampling); !problem.empty()) {
      problems[problem].insert(r.rank);
    }
  }
  if (left_out > 0) {
    out.push_back(fmt::format("The counters of {} more ranks are in the JSON.", left_out));
  }
  for (const auto& [problem, ranks] : problems) {
    out.push_back(fmt::format("{}: {}.", ranks_at_front(ranks), problem));
  }
  return out;
}

}  // namespace xpurun::report
