// The callee of a Python instruction: the dotted name before "(" at the instruction's source position. No
// other source text is taken from the target's files.
#pragma once

#include "stackdump/cpython/line_table.h"

#include <string>
#include <string_view>

namespace xpurun::stackdump {

// "time.sleep" if the text holds `time.sleep(` at the 1-based byte column; otherwise empty.
std::string called_name(std::string_view text, int column);

// called_name() for an expression with a known end. Also empty if the call is only a part of the expression:
// in `C().run()` the outer callee has no dotted name, and C() is not the call of this expression.
std::string called_by(std::string_view expression);

// For a line without columns (<= 3.10): the callee if the line holds exactly one call; otherwise empty.
std::string sole_called_name(std::string_view line);

// The callee from a source file. Empty if in any doubt.
std::string callee_at(const std::string& path, const SourceRange& range);

}  // namespace xpurun::stackdump
