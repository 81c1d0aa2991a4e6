#include "report/profile/throttling.h"

#include "common/base/tr.h"
#include "common/model/evidence/gpu_state.h"
#include "report/speed/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace xpurun::report {

using model::GpuClocks;
using model::ThrottleReason;

namespace {

constexpr double kLower = 0.95;
constexpr double kMoreThrottled = 0.1;

// Idle GPUs, and clocks that were asked for, are no throttling.
bool is_throttling(const std::string& reason) {
  switch (model::from_name<ThrottleReason>(reason).value_or(ThrottleReason::idle)) {
    case ThrottleReason::power_cap:
    case ThrottleReason::hardware_slowdown:
    case ThrottleReason::thermal:
    case ThrottleReason::hardware_thermal:
    case ThrottleReason::power_brake:
      return true;
    default:
      return false;
  }
}

struct Throttled {
  double share = 0;
  std::string reason;
};

Throttled throttled(const GpuClocks& c) {
  Throttled out;
  for (size_t i = 0; i < std::min(c.throttle_reasons.size(), c.throttle_shares.size()); ++i) {
    if (is_throttling(c.throttle_reasons[i]) && c.throttle_shares[i] > out.share) {
      out = {c.throttle_shares[i], c.throttle_reasons[i]};
    }
  }
  return out;
}

}  // namespace

std::string throttling_words(const model::GpuCapture& capture, const model::RankSet& ranks) {
  std::vector<const GpuClocks*> these;
  std::vector<double> clocks;
  std::vector<double> shares;
  for (const GpuClocks& c : capture.clocks) {
    if (ranks.contains(c.rank)) {
      these.push_back(&c);
    } else if (c.sm_median_mhz > 0) {
      clocks.push_back(c.sm_median_mhz);
      shares.push_back(throttled(c).share);
    }
  }
  if (these.size() != ranks.size() || these.empty() || clocks.empty()) {
    return "";
  }
  const double usual = median(clocks);
  const double usual_share = median(shares);
  const bool all = std::all_of(these.begin(), these.end(), [&](const GpuClocks* c) {
    return c->sm_median_mhz > 0 &&
           (c->sm_median_mhz < kLower * usual || throttled(*c).share > usual_share + kMoreThrottled);
  });
  if (!all) {
    return "";
  }
  const GpuClocks& worst = **std::min_element(these.begin(), these.end(), [](const auto* a, const auto* b) {
    return a->sm_median_mhz < b->sm_median_mhz;
  });
  const Throttled why = throttled(worst);
  return base::tr("the SM clock of rank {} was {} MHz{}, that of the others {:.0f} MHz", worst.rank,
                  worst.sm_median_mhz,
                  why.share > 0 ? fmt::format(" ({} {:.0f} %)", why.reason, 100 * why.share) : "", usual);
}

}  // namespace xpurun::report
