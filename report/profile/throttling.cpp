#include "report/profile/throttling.h"

#include "common/base/tr.h"
#include "report/speed/primitives/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace xpurun::report {

using model::GpuClocks;
using model::ThrottleReason;
using model::ThrottleShare;

namespace {

constexpr double kLower = 0.95;
constexpr double kMoreThrottled = 0.1;
constexpr double kHalf = 0.5;

// A kernel that computes takes longer by the ratio of the clocks at most.
bool explains(double usual_mhz, int mhz, double slowdown) {
  return mhz < kLower * usual_mhz && usual_mhz / mhz - 1 >= kHalf * slowdown;
}

ThrottleShare throttled(const GpuClocks& c, bool power_cap = true) {
  ThrottleShare out;
  for (const ThrottleShare& t : c.throttled) {
    const bool counts = power_cap || t.reason != ThrottleReason::power_cap;
    if (counts && model::is_throttling(t.reason) && t.share > out.share) {
      out = t;
    }
  }
  return out;
}

const GpuClocks* clocks_of(const model::GpuCapture& capture, base::Rank rank) {
  const auto at = std::find_if(capture.clocks.begin(), capture.clocks.end(),
                               [rank](const GpuClocks& c) { return c.rank == rank; });
  return at == capture.clocks.end() ? nullptr : &*at;
}

}  // namespace

std::string throttling_words(const model::GpuCapture& capture, const model::RankSet& ranks, double slowdown) {
  std::vector<const GpuClocks*> these;
  std::vector<double> clocks;
  std::vector<double> shares;
  for (const GpuClocks& c : capture.clocks) {
    if (ranks.contains(c.rank)) {
      these.push_back(&c);
    } else if (c.sm_median_mhz > 0) {
      clocks.push_back(c.sm_median_mhz);
      shares.push_back(throttled(c, false).share);
    }
  }
  if (these.size() != ranks.size() || these.empty() || clocks.empty()) {
    return "";
  }
  const double usual = median(clocks);
  const double usual_share = median(shares);
  const bool all = std::all_of(these.begin(), these.end(), [&](const GpuClocks* c) {
    return c->sm_median_mhz > 0 && (explains(usual, c->sm_median_mhz, slowdown) ||
                                    throttled(*c, false).share > usual_share + kMoreThrottled);
  });
  if (!all) {
    return "";
  }
  const GpuClocks& worst = **std::min_element(these.begin(), these.end(), [](const auto* a, const auto* b) {
    return a->sm_median_mhz < b->sm_median_mhz;
  });
  const ThrottleShare why = throttled(worst);
  return base::tr(
      "the SM clock of rank {} was {} MHz{}, that of the others {:.0f} MHz", worst.rank, worst.sm_median_mhz,
      why.share > 0 ? fmt::format(" ({} {:.0f} %)", name_of(why.reason), 100 * why.share) : "", usual);
}

std::string throttling_of_all_words(const model::GpuCapture& capture, const model::GpuCapture* before,
                                    double slowdown) {
  std::vector<double> clocks;
  std::vector<double> clocks_before;
  ThrottleShare worst;
  for (const GpuClocks& c : capture.clocks) {
    const GpuClocks* was = before == nullptr ? nullptr : clocks_of(*before, c.rank);
    const ThrottleShare why = throttled(c, was != nullptr);
    const double hard = throttled(c, false).share;
    const bool lower =
        was != nullptr && c.sm_median_mhz > 0 && explains(was->sm_median_mhz, c.sm_median_mhz, slowdown);
    if (!lower && hard <= (was == nullptr ? 0 : throttled(*was, false).share) + kMoreThrottled) {
      return "";
    }
    worst = why.share > worst.share ? why : worst;
    clocks.push_back(c.sm_median_mhz);
    if (was != nullptr) {
      clocks_before.push_back(was->sm_median_mhz);
    }
  }
  if (clocks.empty()) {
    return "";
  }
  const std::string reason =
      worst.share > 0 ? fmt::format(" ({} {:.0f} %)", name_of(worst.reason), 100 * worst.share) : "";
  return clocks_before.empty()
             ? base::tr("all GPUs were throttled{}, the SM clock was {:.0f} MHz", reason, median(clocks))
             : base::tr("all GPUs were throttled{}, the SM clock was {:.0f} MHz, before {:.0f} MHz", reason,
                        median(clocks), median(clocks_before));
}

}  // namespace xpurun::report
