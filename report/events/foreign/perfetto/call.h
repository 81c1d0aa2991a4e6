// From what the arguments of a slice in a Perfetto trace say back to the call, as far as xpurun wrote them.
#pragma once

#include "report/events/activity.h"

#include <string>
#include <vector>

namespace xpurun::report {

// `arguments` are those of all slices of the call.
Call call_of_perfetto(Activity& activity, std::string name, Category category,
                      std::vector<Argument> arguments);
// "matmul"; of another program's categories `python`.
Category category_of_perfetto(std::string_view name);

}  // namespace xpurun::report
