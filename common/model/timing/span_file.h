// Span files, ranks/<rank>/spans-<n>.xsp: the spans (span.h) of one process, 12 to 20 bytes each, and samples
// of its load. docs/spans.md is the specification; the frame is that of event files. A truncated file is
// readable up to its last complete block.
#pragma once

#include "common/base/result.h"
#include "common/model/timing/span.h"

#include <string>
#include <string_view>

namespace xpurun::model {

// First line of the file. The second line is a JSON object, EventFileHeader; blocks follow.
inline constexpr std::string_view kSpansSchema = "xpurun.spans/1";
inline constexpr std::string_view kSpanFileSuffix = ".xsp";
// Beginnings of the names. Traced functions have separate files, so that they never displace the stages.
inline constexpr std::string_view kSpanFilePrefix = "spans-";
inline constexpr std::string_view kFunctionFilePrefix = "functions-";

// The bytes are untrusted. In the result every index is valid, 0 <= begin_ns, 0 <= duration_ns, and begin_ns
// + duration_ns does not overflow.
base::Result<SpanFile> parse_span_file(std::string_view bytes);
base::Result<SpanFile> load_span_file(const std::string& path);

}  // namespace xpurun::model
