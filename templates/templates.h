// The files of this folder as text; templates.cpp is generated from them by embed.py. CSS and JavaScript hold
// neither "]]>" nor "</script", so that they can stand in SVG and HTML unchanged (embed.py refuses
// otherwise).
#pragma once

#include <string_view>

namespace xpurun::templates {

struct Script {
  std::string_view text;
  std::string_view source;  // for the script-src of a Content-Security-Policy: 'sha256-...' of the text
};

extern const std::string_view kComparisonMustache;
extern const std::string_view kReportMustache;
extern const std::string_view kReportCss;
extern const Script kReportJs;
extern const Script kWordsJs;
extern const std::string_view kFlamegraphCss;
extern const Script kFlamegraphJs;
extern const Script kStackmodelJs;
extern const Script kStacktablesJs;
extern const Script kFunctiontableJs;
extern const Script kStackviewJs;
extern const Script kRanktableJs;
extern const std::string_view kTimelineCss;
extern const Script kTimelineJs;
extern const std::string_view kPluginDriverPy;  // run by Python, not shown
extern const std::string_view kNotifyDriverPy;  // likewise

}  // namespace xpurun::templates
