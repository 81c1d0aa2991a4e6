// Data packed for files and pages: gzip by zlib, and base64 (RFC 4648).
#pragma once

#include "common/base/result.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace xpurun::base {

// Empty if zlib fails, which happens only when memory runs out.
std::string gzip(std::string_view bytes);
// Fails if the bytes are not exactly one gzip stream, or if the result exceeds `limit` bytes.
Result<std::string> gunzip(std::string_view packed, size_t limit);

std::string base64(std::string_view bytes);
// Skips line breaks.
Result<std::string> from_base64(std::string_view text);

}  // namespace xpurun::base
