// The text of /metrics, as pure functions of a node's data. Two formats: Prometheus (text/plain;
// version=0.0.4) and OpenMetrics 1.0. Two families of names: xpurun_* and XPU_TIMER_*, which existing
// dashboards read. docs/metrics.md lists all names.
#pragma once

#include "launcher/collect/peaks.h"
#include "launcher/collect/rank_timing.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

enum class MetricsFormat { prometheus, openmetrics };

// One rank of this node, with or without a GPU call.
struct RankMetrics {
  base::Rank rank = base::kNoRank;
  int local_rank = -1;
  bool hung = false;
  double still_s = -1;                 // seconds since the last progress; negative: not watched
  uint64_t events_unwritten = 0;       // events lost because no event file could be written
  const RankTiming* timing = nullptr;  // nullptr: no GPU call yet
};

struct NodeMetrics {
  std::string version;
  std::string host;
  std::string job;  // labels of the XPU_TIMER_* family and of xpurun_rank_info; empty: unknown
  std::string pod;
  std::string ip;
  bool dumping = false;    // a dump is under way
  double last_dump_s = 0;  // duration of the last dump; 0: no dump yet
  bool shapes = false;     // also serve the atorch_* names
  Peaks peaks;
  std::vector<RankMetrics> ranks;
};

std::string_view content_type(MetricsFormat format);
std::string expose(const NodeMetrics& node, MetricsFormat format);

}  // namespace xpurun::launcher
