// Random numbers of the kernel. Any thread.
#pragma once

#include "common/base/result.h"

#include <cstdint>
#include <string>

namespace xpurun::base {

// Never 0.
Result<uint64_t> random_number();
// 32 hexadecimal digits, which nobody can guess.
Result<std::string> random_token();

}  // namespace xpurun::base
