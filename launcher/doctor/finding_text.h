// Findings as people and programs read them. Pure.
#pragma once

#include "launcher/doctor/finding.h"
#include "launcher/output/ink.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace xpurun::launcher {

// "ok    ptrace      stopped a child ...", and under it what is lost and what to do.
std::string finding_text(const Finding& finding, size_t columns, const Ink& ink);
// "17 ok, 1 warn, 0 fail", and what will be missed.
std::string findings_summary(const Findings& findings, size_t columns, const Ink& ink);
// Schema xpurun.doctor/1.
nlohmann::ordered_json to_json(const Findings& findings);

bool any_failed(const Findings& findings);

}  // namespace xpurun::launcher
