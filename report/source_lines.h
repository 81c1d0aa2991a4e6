// The source line of every Python frame of the classes, read from the files as they are now on this host.
// Only on request: a report is mailed around, and source code may not be meant to be.
#pragma once

#include "report/tree/stack_classes.h"

#include <vector>

namespace xpurun::report {

// Files that cannot be read, are no regular files or are very large give nothing.
void add_source_lines(std::vector<StackClass>& classes);

}  // namespace xpurun::report
