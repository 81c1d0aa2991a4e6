// timing.json: the ranks' timing and ledgers at one moment. launcher/collect/timing_json.h writes it and
// lists the keys. This header only has the schema name, which readers check.
#pragma once

#include <string_view>

namespace xpurun::model {

inline constexpr std::string_view kTimingSchema = "xpurun.timing/1";

}  // namespace xpurun::model
