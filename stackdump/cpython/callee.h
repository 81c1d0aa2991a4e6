// What a Python line calls: the dotted name before "(" at the place that an instruction belongs to. No other
// source text ever leaves the target's files.
#pragma once

#include "common/base/ids.h"
#include "stackdump/cpython/line_table.h"

#include <string>
#include <string_view>

namespace xpurun::stackdump {

// "time.sleep" if the text holds `time.sleep(` at the 1-based byte column; otherwise empty.
std::string called_name(std::string_view text, int column);

// The same for an expression whose end is known: empty too if the call is only a part of the expression, as
// C() is of `C().run()`, whose callee has no name of its own.
std::string called_by(std::string_view expression);

// For a line without columns (<= 3.10): the called name if there is only one call on the line; otherwise
// empty.
std::string sole_called_name(std::string_view line);

// The same for a file of the target, found through its root (or working) directory. Empty on any doubt.
std::string callee_at(base::Pid pid, const std::string& filename, const SourceRange& range);

}  // namespace xpurun::stackdump
