// The text of /metrics, as pure functions of a node's data. Two formats: Prometheus (text/plain;
// version=0.0.4) and OpenMetrics 1.0. Two families of names: xpurun_* and XPU_TIMER_*, which existing
// dashboards read. docs/metrics.md lists all names.
#pragma once

#include "launcher/metrics/families.h"
#include "launcher/metrics/node_metrics.h"

#include <string>
#include <string_view>

namespace xpurun::launcher {

std::string_view content_type(MetricsFormat format);
std::string expose(const NodeMetrics& node, MetricsFormat format);

}  // namespace xpurun::launcher
