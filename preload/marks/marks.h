// The functions of include/xpurun.h: marks of a program in C or C++, written as spans into a segment of their
// own (common/wire/python_segment.h). The segment is requested at the first mark, which may wait as long as
// the first GPU call does; marks of other threads meanwhile are not recorded. No allocation, no lock. Any
// thread, not in signal handlers.
#pragma once

#include <sys/un.h>

namespace xpurun::preload {

// Call from the constructor. Before, and without it, marks do nothing.
void prepare_marks(const sockaddr_un& socket);

}  // namespace xpurun::preload
