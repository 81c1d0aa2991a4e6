// StragglerWatch: finds, in a job without a GPU, a rank for which the others wait from the first steps on:
// such a job never becomes slower. Who waits uses no CPU in the backward pass and in collectives; the rank
// that the others wait for does. Reports once until that is over. Pure; the caller has the clock.
#pragma once

#include "common/base/ids.h"
#include "common/model/timing/span.h"
#include "launcher/speed/suspicion.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace xpurun::launcher {

class StragglerWatch {
 public:
  struct Straggler {
    base::Rank rank = base::kNoRank;
    double share = 0;  // of the time of a step, for which the others wait
  };
  // Steps that a rank has made, and their mean duration in seconds.
  struct Steps {
    uint64_t count = 0;
    double step_s = -1;
  };

  // `names`: of the groups of spans, by their indexes.
  void add(base::Rank rank, std::span<const model::Span> spans, const std::vector<std::string>& names);
  // Call from time to time, with the steps of all ranks.
  std::optional<Straggler> look(const std::map<base::Rank, Steps>& steps);
  // The rank that look() has reported, once the others no longer wait for it; kNoRank: none. Forgets it.
  base::Rank take_over() { return std::exchange(over_, base::kNoRank); }
  // What was reported was chance.
  void forget() { suspicion_.forget(); }

 private:
  struct Sum {
    int64_t waited_ns = 0;  // since the last window
    uint64_t from = 0;      // steps at its begin
    uint64_t waits = 0;     // passes and calls in which the rank may have waited
    std::vector<std::pair<base::MonoNs, int64_t>> calls;  // since the last backward pass: begin, wait
  };

  static int64_t waited_in_calls(const Sum& sum, base::MonoNs begin);

  std::map<base::Rank, Sum> sums_;
  Suspicion suspicion_;
  base::Rank over_ = base::kNoRank;
};

}  // namespace xpurun::launcher
