// The files of this folder as text; templates.cpp is generated from them by embed.py. CSS and JavaScript hold
// neither "]]>" nor "</script", so that they can stand in SVG and HTML unchanged (embed.py refuses
// otherwise).
#pragma once

#include <string_view>

namespace xpurun::templates {

extern const std::string_view kComparisonMustache;
extern const std::string_view kReportMustache;
extern const std::string_view kReportCss;
extern const std::string_view kReportJs;
extern const std::string_view kWordsJs;
extern const std::string_view kFlamegraphCss;
extern const std::string_view kFlamegraphJs;
extern const std::string_view kStackmodelJs;
extern const std::string_view kStacktablesJs;
extern const std::string_view kFunctiontableJs;
extern const std::string_view kStackviewJs;
extern const std::string_view kRanktableJs;
extern const std::string_view kTimelineCss;
extern const std::string_view kTimelineJs;
extern const std::string_view kPluginDriverPy;  // run by Python, not shown

}  // namespace xpurun::templates
