// Folded stacks: one line per distinct stack, "outer;inner;innermost 3", readable by flamegraph.pl, inferno
// and speedscope. The number counts ranks, or processes where there are no ranks.
#pragma once

#include "report/tree/stack_forest.h"

#include <string>

namespace xpurun::report {

// Every stack starts with "process role/thread role", e.g. "rank/main".
std::string folded_text(const StackForest& forest, Layer layer);

// ';' and line breaks would end a frame or a line: ';' becomes ',', control characters a space.
std::string folded_name(std::string_view label);

}  // namespace xpurun::report
