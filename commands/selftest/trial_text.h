// The output of `xpurun selftest`: the table of trials, the list of injections, and both as JSON. Pure.
#pragma once

#include "commands/selftest/trial.h"
#include "launcher/output/ink.h"

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <string>
#include <vector>

namespace xpurun::launcher {

// "right"
std::string_view name_of(TrialOutcome outcome);

// The heading of the columns; empty if the terminal is too narrow for columns.
std::string trial_heading(size_t columns);
// One row. Below a wrong trial: its errors, and the sentence of the verdict.
std::string trial_text(const Trial& trial, size_t columns, const Ink& ink);
std::string trial_summary(const std::vector<Trial>& trials, size_t columns, const Ink& ink);
// Schema "xpurun.selftest/1", docs/selftest.md.
nlohmann::ordered_json to_json(const std::vector<Trial>& trials, const TrialSettings& settings);

std::string list_text(std::span<const Injection* const> injections, size_t columns);
nlohmann::ordered_json list_json(std::span<const Injection* const> injections);

// No trial is wrong, and at least one could be run.
bool all_right(const std::vector<Trial>& trials);

}  // namespace xpurun::launcher
