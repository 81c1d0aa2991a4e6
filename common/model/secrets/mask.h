// The replacement for a secret in every file and message.
#pragma once

#include <string_view>

namespace xpurun::model {

inline constexpr std::string_view kMask = "****";

}  // namespace xpurun::model
