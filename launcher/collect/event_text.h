// The events of an event file as lines for people and as JSON, one object per line. Pure functions.
#pragma once

#include "common/model/timing/event_file.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace xpurun::launcher {

// A summary of the file, then the column headers.
std::string event_file_text(const model::EventFile& file, std::string_view path);
// `index` is an index into file.events.
std::string event_text(const model::EventFile& file, size_t index);

// {"schema", "file", "rank", ..., "communicators": [...]}
std::string event_file_json(const model::EventFile& file, std::string_view path);
// {"rank", "begin_ns", "wall_ns", "duration_ns", "function", ...}; docs/events.md lists the members.
std::string event_json(const model::EventFile& file, size_t index);

}  // namespace xpurun::launcher
