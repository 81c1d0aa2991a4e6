// A burn as text and as JSON. Pure.
#pragma once

#include "commands/burn/judge.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>

namespace xpurun::launcher {

// One table, then a sentence for each fault, or that there is none.
std::string burn_text(const Burn& burn, size_t columns);
// Schema xpurun.burn/1. Rates in FLOP/s and bytes/s.
nlohmann::ordered_json to_json(const Burn& burn);

// Whether a GPU is faulty or slower than the others.
bool has_faults(const Burn& burn);

}  // namespace xpurun::launcher
