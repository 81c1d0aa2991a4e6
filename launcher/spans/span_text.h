// The spans of a span file as lines for people and as JSON, one object per line. Pure functions.
#pragma once

#include "common/model/timing/span.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace xpurun::launcher {

// A summary of the file, then the column headers.
std::string span_file_text(const model::SpanFile& file, std::string_view path);
// `index` is an index into file.spans.
std::string span_text(const model::SpanFile& file, size_t index);

// {"schema", "file", "rank", ...}; docs/spans.md lists the members.
std::string span_file_json(const model::SpanFile& file, std::string_view path);
std::string span_json(const model::SpanFile& file, size_t index);
// `index` is an index into file.loads.
std::string short_calls_text(const model::SpanFile& file, size_t index);
std::string short_calls_json(const model::SpanFile& file, size_t index);
std::string load_json(const model::SpanFile& file, size_t index);

}  // namespace xpurun::launcher
