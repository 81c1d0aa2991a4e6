// Metric names of other tools, for the dashboards made for those tools.
#pragma once

#include "launcher/metrics/families.h"
#include "launcher/metrics/node_metrics.h"

namespace xpurun::launcher {

// The XPU_TIMER_* family of one node.
void add_xpu_timer(const NodeMetrics& node, Families& out);
// The atorch_* families: five per matmul shape.
void add_atorch(const NodeMetrics& node, Families& out);

}  // namespace xpurun::launcher
