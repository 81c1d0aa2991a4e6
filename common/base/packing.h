// Data packed for files and pages: gzip by zlib, and base64 (RFC 4648).
#pragma once

#include "common/base/result.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace xpurun::base {

// Empty if zlib fails, which happens only without free memory.
std::string gzip(std::string_view bytes);
// Fails on bytes that are not one gzip stream, and if more than `limit` bytes come out.
Result<std::string> gunzip(std::string_view packed, size_t limit);

std::string base64(std::string_view bytes);
// Line breaks are skipped.
Result<std::string> from_base64(std::string_view text);

}  // namespace xpurun::base
