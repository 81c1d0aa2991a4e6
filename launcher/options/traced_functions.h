// The functions that --trace-python names. Pure.
#pragma once

#include "common/base/result.h"

#include <string>
#include <string_view>

namespace xpurun::launcher {

// `list` has names with commas: "module:function", "package.module:Class.method", or xpu_timer's form
// "module@Class@method". The result has the first form, each name once; empty for an empty list. An error
// tells the first name that is none.
base::Result<std::string> traced_functions(std::string_view list);

}  // namespace xpurun::launcher
