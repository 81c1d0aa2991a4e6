#include "common/base/os/random.h"

#include <fmt/format.h>

#include <sys/random.h>

namespace xpurun::base {

Result<uint64_t> random_number() {
  uint64_t out = 0;
  if (::getrandom(&out, sizeof out, 0) != static_cast<ssize_t>(sizeof out)) {
    return fail_errno("cannot get random bytes");
  }
  return out == 0 ? 1 : out;
}

Result<std::string> random_token() {
  XPURUN_TRY_ASSIGN(const uint64_t first, random_number());
  XPURUN_TRY_ASSIGN(const uint64_t second, random_number());
  return fmt::format("{:016x}{:016x}", first, second);
}

}  // namespace xpurun::base
