#include "commands/replay/prepared_call.h"

#include "commands/replay/vendor.h"

#include <fmt/format.h>

namespace xpurun::launcher {

base::Status check_blas(int status, const char* function) {
  return status == 0 ? base::Status()
                     : base::fail(status == vendor::kNotSupported
                                      ? fmt::format("{} does not support the call on this GPU", function)
                                      : fmt::format("{} fails with status {}", function, status));
}

}  // namespace xpurun::launcher
