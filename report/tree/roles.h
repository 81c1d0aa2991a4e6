// What a process and a thread are for, as far as merging is concerned: threads are only ever merged with
// threads of the same role. Pure functions.
#pragma once

#include "common/model/stack_snapshot.h"

#include <string>
#include <string_view>

namespace xpurun::report {

// The role, with `other` for all that does not take part in the job.
model::ProcessRole process_role(const model::ProcessStacks& p);
// "main", "python" without its version, or the thread's name with '#' for digits ("pt_autograd_#").
std::string thread_role(const model::ThreadStack& t);
std::string fold_digits(std::string_view text);

// What a frame belongs to. Interpreter: CPython itself and what starts processes and threads.
enum class FrameGroup { user, library, interpreter };
FrameGroup frame_group(const model::Frame& f);

// Not the standard library, an installed package or a frozen module: most likely the user's own code.
bool is_user_code(const model::Frame& f);

}  // namespace xpurun::report
