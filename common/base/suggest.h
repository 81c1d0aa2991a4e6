// "Did you mean": the closest of a list of names, or nothing if none is close enough to be helpful.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::base {

std::optional<std::string> closest(std::string_view given, const std::vector<std::string>& names);

}  // namespace xpurun::base
