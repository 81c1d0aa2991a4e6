// zstd for messages and archives.
#pragma once

#include "common/base/result.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace xpurun::nodes {

std::string pack(std::string_view bytes);
// Fails on bytes that are not one zstd frame, and if more than `limit` bytes come out.
base::Result<std::string> unpack(std::string_view packed, size_t limit);

}  // namespace xpurun::nodes
