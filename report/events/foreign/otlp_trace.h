// Spans of OpenTelemetry in JSON (NAME.otlp.json, or any .json that is named): an object with resourceSpans,
// or a line for each of several, as collectors write them. Untrusted.
#pragma once

#include "common/base/result.h"
#include "report/events/activity.h"
#include "report/events/record_owner.h"

#include <string>
#include <string_view>

namespace xpurun::report {

// Whether the first bytes of a JSON file begin with spans of OpenTelemetry.
bool begins_otlp_trace(std::string_view head);

// Of no rank: a file may have the spans of several processes.
base::Result<RecordOwner> owner_of_otlp_trace(const std::string& path);

base::Status add_otlp_trace(Activity& out, const std::string& path);

// An error means that there is no span in the text.
base::Status parse_otlp_trace(Activity& out, std::string_view text);

}  // namespace xpurun::report
