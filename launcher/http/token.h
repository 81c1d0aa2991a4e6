// Secret tokens, known only to those who may ask.
#pragma once

#include "common/base/result.h"

#include <string>
#include <string_view>

namespace xpurun::launcher {

// 32 random hexadecimal digits.
base::Result<std::string> make_token();
// Takes the same time whether the texts are equal or not.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace xpurun::launcher
