// trace.json: the request and the result of a trace. launcher/collect/trace.cpp writes it; docs/rundir.md
// lists the keys. This header only has the schema name, which readers check.
#pragma once

#include <string_view>

namespace xpurun::model {

inline constexpr std::string_view kTraceSchema = "xpurun.trace/1";

}  // namespace xpurun::model
