#include "report/speed/steps/kept_samples.h"

namespace xpurun::report {

void KeptSamples::add(const TimedSample& sample) {
  if (added_ % stride_ == 0) {
    earlier_.emplace_back(added_, sample);
    if (earlier_.size() > most_earlier_) {
      stride_ *= 2;
      std::erase_if(earlier_, [this](const auto& one) { return one.first % stride_ != 0; });
    }
  }
  latest_.push_back(sample);
  ++added_;
  if (latest_.size() >= 2 * most_latest_) {
    latest_.erase(latest_.begin(), latest_.end() - static_cast<std::ptrdiff_t>(most_latest_));
  }
}

std::vector<TimedSample> KeptSamples::take() && {
  std::vector<TimedSample> out;
  for (const auto& [number, sample] : earlier_) {
    if (number + latest_.size() < added_) {
      out.push_back(sample);
    }
  }
  out.insert(out.end(), latest_.begin(), latest_.end());
  return out;
}

}  // namespace xpurun::report
