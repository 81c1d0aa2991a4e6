#include "launcher/heap/heap_history.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {

constexpr size_t kMostKept = 16;
constexpr size_t kFewest = 8;
constexpr size_t kTogether = 3;  // readings of which the lowest, or the highest, counts

}  // namespace

void HeapHistory::add(base::MonoNs at, uint64_t steps, const HeldByStack& held) {
  if (passed_++ % every_ != 0) {
    return;
  }
  if (kept_.size() == kMostKept) {
    for (size_t i = 0; i < kMostKept / 2; ++i) {
      kept_[i] = kept_[2 * i];
    }
    kept_.resize(kMostKept / 2);
    every_ *= 2;
  }
  kept_.push_back({.at = at, .steps = steps, .held = held});
}

HeapHistory::Growth HeapHistory::growth() const {
  Growth out;
  if (kept_.size() < kFewest) {
    return out;
  }
  const size_t middle = kept_.size() / 2;
  const Reading& from = kept_[middle];
  const Reading& to = kept_[kept_.size() - kTogether];
  for (size_t stack = 0; stack < out.grown.size(); ++stack) {
    int64_t before = 0;
    for (size_t i = middle - kTogether + 1; i <= middle; ++i) {
      before = std::max(before, kept_[i].held[stack]);
    }
    int64_t now = kept_.back().held[stack];
    for (size_t i = kept_.size() - kTogether; i < kept_.size(); ++i) {
      now = std::min(now, kept_[i].held[stack]);
    }
    out.grown[stack] = std::max<int64_t>(now - before, 0);
  }
  out.time = to.at - from.at;
  out.steps = to.steps > from.steps ? to.steps - from.steps : 0;
  return out;
}

}  // namespace xpurun::launcher
