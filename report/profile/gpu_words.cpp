#include "report/profile/gpu_words.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/profile/resource_words.h"
#include "report/speed/primitives/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

namespace xpurun::report {

using model::ActivityStatus;
using model::RankActivity;

namespace {

// Reasons with a smaller part of the samples are not reported.
constexpr double kLeastThrottled = 0.01;

std::string named_ranks(const model::RankSet& ranks) {
  return ranks.size() == 1 ? base::tr("rank {}", ranks.brief()) : base::tr("ranks {}", ranks.brief());
}

std::string percent(double share) {
  return fmt::format("{:.2f} %", 100 * share);
}

std::string why(ActivityStatus status, const std::string& reason) {
  switch (status) {
    case ActivityStatus::complete:
      return "";
    case ActivityStatus::lossy:
      return base::tr("records were dropped, because the buffer was full");
    case ActivityStatus::client_came:
      return base::tr(
          "another CUPTI client, such as torch.profiler, began during the recording, which may be "
          "incomplete");
    case ActivityStatus::other_client:
      return base::tr(
          "not recorded: another CUPTI client (torch.profiler, Nsight Systems) is active; use its own "
          "trace");
    case ActivityStatus::no_library:
      return base::tr(
          "not recorded: libcupti.so was not found; it is part of the CUDA toolkit and of torch for CUDA");
    case ActivityStatus::unknown_version:
      return base::tr(
          "not recorded: this CUPTI is older than that of CUDA 12.0, or newer than that of CUDA 13");
    case ActivityStatus::refused:
    case ActivityStatus::failed:
      return base::tr("not recorded: {}", base::sanitize(reason));
    case ActivityStatus::no_answer:
      return base::tr("not recorded: the process has not answered in time, or has ended");
  }
  return "";
}

// A rank is named if the share of the time in which its GPU had work differs from the others' by at least
// this share, and by kUtilisationSpreads robust deviations.
constexpr double kLeastUtilisationExcess = 0.05;
constexpr double kUtilisationSpreads = 4;

// For how much of the time the GPUs had work, and the ranks whose GPU differs from the others'.
std::string utilisation(const model::GpuCapture& capture) {
  std::vector<double> busy;
  for (const RankActivity& r : capture.ranks) {
    if (r.busy_share >= 0) {
      busy.push_back(r.busy_share);
    }
  }
  if (busy.empty()) {
    return "";
  }
  const double usual = median(busy);
  if (busy.size() == 1) {
    return base::tr("; the GPU was busy for {:.1f} %", 100 * usual);
  }
  const auto [least, most] = std::minmax_element(busy.begin(), busy.end());
  std::string out = base::tr("; the GPUs were busy for {:.1f} % (median; lowest {:.1f} %, highest {:.1f} %)",
                             100 * usual, 100 * *least, 100 * *most);
  const double limit = std::max(kLeastUtilisationExcess, kUtilisationSpreads * robust_spread(busy, usual));
  for (const RankActivity& r : capture.ranks) {
    if (r.busy_share >= 0 && busy.size() > 2 && std::abs(r.busy_share - usual) > limit) {
      out += base::tr(", rank {} for {:.1f} %", r.rank, 100 * r.busy_share);
    }
  }
  return out;
}

std::string recorded(const model::GpuCapture& capture) {
  uint64_t records = 0;
  model::RankSet ranks;
  double seconds = 0;
  for (const RankActivity& r : capture.ranks) {
    if (r.has_records()) {
      records += r.records;
      ranks.insert(r.rank);
      seconds = std::max(seconds, r.seconds);
    }
  }
  if (ranks.empty()) {
    return "";
  }
  return base::tr("CUPTI recorded {} kernels, copies and calls of {} in {}{}.", records, named_ranks(ranks),
                  base::human_duration(seconds), utilisation(capture));
}

std::string cost(const model::GpuCapture& capture) {
  std::vector<double> own;
  std::vector<double> shares;
  std::vector<double> setup;
  std::vector<double> teardown;
  for (const RankActivity& r : capture.ranks) {
    if (r.seconds > 0) {
      own.push_back(r.overhead_s);
      shares.push_back(r.overhead_s / r.seconds);
      setup.push_back(r.setup_s);
      teardown.push_back(r.teardown_s);
    }
  }
  if (own.empty()) {
    return "";
  }
  std::string out = base::tr("Cost: ");
  if (capture.step_before_s > 0 && capture.step_during_s > 0) {
    out += base::tr("a step took {} during the recording and {} before it ({:+.1f} %); ",
                    work_duration(capture.step_during_s), work_duration(capture.step_before_s),
                    100 * (capture.step_during_s / capture.step_before_s - 1));
  }
  return out + base::tr("CUPTI overhead: {} per rank ({}), {} to begin and {} to end.",
                        work_duration(median(own)), percent(median(shares)), work_duration(median(setup)),
                        work_duration(median(teardown)));
}

std::string clocks_of(const model::GpuClocks& c) {
  std::string out =
      base::tr("Rank {}: SM clock {} MHz (lowest {}{})", c.rank, c.sm_median_mhz, c.sm_lowest_mhz,
               c.sm_limit_mhz > 0 ? base::tr(", limit {}", c.sm_limit_mhz) : "");
  if (c.power_w >= 0) {
    out += fmt::format(", {:.0f} W", c.power_w);
  }
  if (c.temperature_c >= 0) {
    out += fmt::format(", {} C", c.temperature_c);
  }
  for (const model::ThrottleShare& t : c.throttled) {
    if (t.share >= kLeastThrottled) {
      out += fmt::format(", {} {:.0f} %", name_of(t.reason), 100 * t.share);
    }
  }
  return out + ".";
}

}  // namespace

std::vector<std::string> gpu_sentences(const model::GpuCapture& capture) {
  std::vector<std::string> out;
  for (std::string sentence : {recorded(capture), cost(capture)}) {
    if (!sentence.empty()) {
      out.push_back(std::move(sentence));
    }
  }
  std::map<std::pair<ActivityStatus, std::string>, model::RankSet> problems;
  for (const RankActivity& r : capture.ranks) {
    if (r.status != ActivityStatus::complete) {
      problems[{r.status, r.reason}].insert(r.rank);
    }
  }
  for (const auto& [problem, ranks] : problems) {
    std::string who = named_ranks(ranks);
    who.front() = who.front() == 'r' && base::spoken() == base::Language::english ? 'R' : who.front();
    out.push_back(fmt::format("{}: {}.", who, why(problem.first, problem.second)));
  }
  std::vector<std::string> resources = resource_sentences(capture);
  std::move(resources.begin(), resources.end(), std::back_inserter(out));
  for (const model::GpuClocks& c : capture.clocks) {
    out.push_back(clocks_of(c));
  }
  return out;
}

}  // namespace xpurun::report
