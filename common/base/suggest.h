// "Did you mean": the closest name of a list, or nothing if none is close enough to help.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::base {

std::optional<std::string> closest(std::string_view given, const std::vector<std::string>& names);

}  // namespace xpurun::base
