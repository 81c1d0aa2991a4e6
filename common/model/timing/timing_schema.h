// timing.json: what the ranks' timing and ledgers said at one moment (launcher/collect/timing_json.h writes
// it; the keys are listed there). Here is only its name, which its readers check.
#pragma once

#include <string_view>

namespace xpurun::model {

inline constexpr std::string_view kTimingSchema = "xpurun.timing/1";

}  // namespace xpurun::model
