#include "common/base/os/wait_status.h"

#include <fmt/format.h>

#include <cstring>

namespace xpurun::base {

std::string WaitStatus::text() const {
  if (exited()) {
    return fmt::format("exited with status {}", exit_code());
  }
  if (signaled()) {
    const char* name = ::sigabbrev_np(signal());
    return name != nullptr ? fmt::format("killed by SIG{}", name)
                           : fmt::format("killed by signal {}", signal());
  }
  return "ended";
}

}  // namespace xpurun::base
