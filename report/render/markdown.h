// The report as Markdown, to be pasted into an issue or a chat: verdict, source, traceback, last lines, what
// the others wait for, next step, evidence. Made from report.json, as the text for a terminal is.
#pragma once

#include "common/base/result.h"

#include <string>
#include <string_view>

namespace xpurun::report {

// Fails on text that is not a report.json of a known schema. The text may come from anywhere: its content
// stays text, even where characters have a meaning in Markdown.
base::Result<std::string> markdown_text(std::string_view report_json);

}  // namespace xpurun::report
