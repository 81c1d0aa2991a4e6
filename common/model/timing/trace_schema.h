// trace.json: what a trace asked for and what came of it (launcher/collect/trace.cpp writes it;
// docs/rundir.md lists the keys). Here is only its name, which its readers check.
#pragma once

#include <string_view>

namespace xpurun::model {

inline constexpr std::string_view kTraceSchema = "xpurun.trace/1";

}  // namespace xpurun::model
