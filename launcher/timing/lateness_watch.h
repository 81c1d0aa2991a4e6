// LatenessWatch: gives Lateness its windows: the looks at GPUs, or, without a GPU, every ten seconds of the
// calls of torch.distributed. No clock of its own.
#pragma once

#include "common/model/timing/span.h"
#include "common/wire/segment.h"
#include "launcher/collect/lateness.h"

#include <span>
#include <string>
#include <vector>

namespace xpurun::launcher {

class LatenessWatch {
 public:
  // Whether each collective is timed, from `now` on. Ends the last look, if it has not ended yet.
  void looking(bool on, base::MonoNs now);
  // Call now and then.
  void tick(base::MonoNs now);

  // Events of one process; only those of a look count.
  void add(base::Rank rank, std::span<const wire::Event> events, const wire::Segment& memory);
  // Spans of one process in the order of their ends, and the names that their indexes stand for. Not for jobs
  // whose collectives are made by GPUs: their calls return early.
  void add(base::Rank rank, std::span<const model::Span> spans, const std::vector<std::string>& names);

  RankLateness of(base::Rank rank) const { return lateness_.of(rank); }
  // Number of looks that have been judged.
  size_t looks() const { return looks_; }

 private:
  Lateness lateness_;
  size_t looks_ = 0;
  base::MonoNs from_ = 0;   // of the look, or of the window of spans; 0: none
  base::MonoNs until_ = 0;  // of a look that has ended; 0: it goes on
};

}  // namespace xpurun::launcher
