// What /metrics answers: pure functions from what is known of a node's ranks to text. Two formats,
// Prometheus' (text/plain; version=0.0.4) and OpenMetrics 1.0; two families of names, ours and XPU_TIMER_*,
// which existing dashboards read. docs/metrics.md lists all of them.
#pragma once

#include "launcher/collect/peaks.h"
#include "launcher/collect/rank_timing.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

enum class MetricsFormat { prometheus, openmetrics };

// One rank of this node, whether or not it has used a GPU yet.
struct RankMetrics {
  base::Rank rank = base::kNoRank;
  int local_rank = -1;
  bool hung = false;
  double still_s = -1;                 // since the main thread was last seen to move; negative: not watched
  uint64_t events_unwritten = 0;       // that no event file could take
  const RankTiming* timing = nullptr;  // nullptr: no GPU call yet
};

struct NodeMetrics {
  std::string version;
  std::string host;
  std::string job;  // labels of the XPU_TIMER_* family and of xpurun_rank_info; empty: unknown
  std::string pod;
  std::string ip;
  bool dumping = false;    // stacks are being taken
  double last_dump_s = 0;  // how long the last dump took; 0: none yet
  bool shapes = false;     // the atorch_* names too
  Peaks peaks;
  std::vector<RankMetrics> ranks;
};

std::string_view content_type(MetricsFormat format);
std::string expose(const NodeMetrics& node, MetricsFormat format);

}  // namespace xpurun::launcher
