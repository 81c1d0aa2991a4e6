// Findings as text and as JSON. Pure.
#pragma once

#include "commands/doctor/finding.h"
#include "launcher/output/ink.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace xpurun::launcher {

// "ok    ptrace      stopped a child ...", and below it the loss and the remedy.
std::string finding_text(const Finding& finding, size_t columns, const Ink& ink);
// "17 ok, 1 warn, 0 fail", and the consequence.
std::string findings_summary(const Findings& findings, size_t columns, const Ink& ink);
// Schema xpurun.doctor/1.
nlohmann::ordered_json to_json(const Findings& findings);

bool any_failed(const Findings& findings);

}  // namespace xpurun::launcher
