// The functions that --trace-python names. Pure.
#pragma once

#include "common/base/result.h"

#include <string>
#include <string_view>

namespace xpurun::launcher {

// `list` has names separated by commas: "module:function", "package.module:Class.method", or xpu_timer's
// forms "module@Class@method", "module.function" and "function", a function of the main program. The result
// has the first form, without duplicates; empty for an empty list. An error names the first invalid name.
base::Result<std::string> traced_functions(std::string_view list);

}  // namespace xpurun::launcher
