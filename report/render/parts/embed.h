// Data inside a page: packed so that a mailed report stays small, and read back out of it. A data block is a
// <script> that no browser runs, found by its id; its content is JSON with < > & escaped, or gzip in base64.
#pragma once

#include "common/base/result.h"
#include "templates/templates.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

std::string gzip_base64(std::string_view text);
// Fails on anything but base64 of one gzip stream, and when more than `limit` bytes come out.
base::Result<std::string> from_gzip_base64(std::string_view text, size_t limit);

// Of report.json and of the stacks that the page draws.
inline constexpr std::string_view kReportDataId = "report-data";
inline constexpr std::string_view kStackDataId = "stack-data";
// Of the calls over time.
inline constexpr std::string_view kTimelineDataId = "timeline-data";

enum class Packing { automatic, always };
// The whole element. Automatic: plain JSON up to some size, so that simple tools can read it too.
std::string data_block(std::string_view id, std::string_view json, Packing packing);

// The JSON of the data block `id` of a page that xpurun wrote. The page may come from anywhere.
base::Result<std::string> read_data_block(std::string_view page, std::string_view id);

// The scripts of a page.
struct PageScripts {
  // With a data block for templates/words.js: the translations of the texts in xpurun.t("..."), in the
  // language of this thread.
  std::string elements;
  std::string sources;  // of the page's policy: these scripts and no others may run
};
PageScripts page_scripts(const std::vector<templates::Script>& scripts);

}  // namespace xpurun::report
