// Comparing secret tokens, known only to those who may ask.
#pragma once

#include <string_view>

namespace xpurun::launcher {

// Takes the same time whether the texts are equal or not.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace xpurun::launcher
