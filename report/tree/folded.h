// Folded stacks: one line per distinct stack, "outer;inner;innermost 3", as flamegraph.pl, inferno and
// speedscope read them. The number is ranks (or processes, where they have no rank).
#pragma once

#include "report/tree/stack_forest.h"

#include <string>

namespace xpurun::report {

// Every stack begins with "process role/thread role", e.g. "rank/main".
std::string folded_text(const StackForest& forest, Layer layer);

// ';' and line breaks would end a frame or a line: ';' becomes ',', control characters a space.
std::string folded_name(std::string_view label);

}  // namespace xpurun::report
