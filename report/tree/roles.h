// The role of a process and of a thread. Only threads of the same role are merged. Pure functions.
#pragma once

#include "common/model/stack_snapshot.h"

#include <string>
#include <string_view>

namespace xpurun::report {

// The role; `other` for every process that takes no part in the job.
model::ProcessRole process_role(const model::ProcessStacks& p);
// "main", "python" without its version, or the thread's name with '#' for digits ("pt_autograd_#").
std::string thread_role(const model::ThreadStack& t);
std::string fold_digits(std::string_view text);

// The owner of a frame. Interpreter: CPython itself and the functions that start processes and threads.
enum class FrameGroup { user, library, interpreter };
FrameGroup frame_group(const model::Frame& f);

// Neither the standard library nor an installed package nor a frozen module: most likely the user's own code.
bool is_user_code(const model::Frame& f);
// A Python file below its folder of packages or its standard library: "torch/nn/modules/linear.py"; else its
// name alone.
std::string path_below_packages(std::string_view file);

}  // namespace xpurun::report
