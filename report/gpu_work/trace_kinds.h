// Whether a trace holds all work of the GPU. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace xpurun::report {

// `trace` is trace.json.
bool has_all_gpu_work(const nlohmann::json& trace);

}  // namespace xpurun::report
