// report.json, schema "xpurun.report/1": the content of report.html, in the same order, for machines.
#pragma once

#include "common/base/result.h"
#include "report/run/run_report.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace xpurun::report {

inline constexpr std::string_view kReportSchema = "xpurun.report/1";

// Indented in a file, on one line inside the page.
enum class JsonLayout { indented, one_line };
std::string report_json(const RunReport& report, JsonLayout layout);

// The JSON of a report; fails with E-NO-DATA on any other text, which may come from anywhere.
base::Result<nlohmann::json> parse_report(std::string_view text);

// verdict.json
std::string verdict_json(const model::Verdict& verdict);

}  // namespace xpurun::report
