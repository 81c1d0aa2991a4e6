// What is known of the memory when the kernel killed a rank, or a process of a rank, for lack of it.
#pragma once

#include "report/diagnosis/memory/memory_users_words.h"
#include "report/diagnosis/rule.h"

#include <string>

namespace xpurun::report {

// What the control group of the process held at the last reading before its end. Empty: unknown.
std::string group_use_before(const Scene& scene, const Ending& e);
// Who has filled the memory from which the kernel has killed this process, where no line has; adds to the
// evidence who has had it. `line`: the line that has allocated most of what ranks hold.
MemoryFiller say_filler(const Scene& scene, const Ending& killed, const model::HeldMemory& line,
                        model::Verdict& v);
// The rank whose worker (`helper`, may be null) the kernel has killed for lack of memory: "; 330 MiB were
// allocated at load (data.py:7)".
std::string say_memory_of_helpers(const Scene& scene, const Ending& root, const Ending* helper,
                                  model::Verdict& v);

}  // namespace xpurun::report
