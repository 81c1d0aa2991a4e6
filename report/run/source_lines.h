// The source line of every Python frame of the classes, read from this host's current files. Only on request:
// reports are mailed, and source code may be confidential.
#pragma once

#include "report/tree/stack_classes.h"

#include <vector>

namespace xpurun::report {

// Skips files that are unreadable, not regular or very large.
void add_source_lines(std::vector<StackClass>& classes);

}  // namespace xpurun::report
