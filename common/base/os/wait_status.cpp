#include "common/base/os/wait_status.h"

#include "common/base/tr.h"

#include <fmt/format.h>

#include <cstring>

namespace xpurun::base {

std::string WaitStatus::text() const {
  if (exited()) {
    return tr("exited with status {}", exit_code());
  }
  if (signaled()) {
    const char* name = ::sigabbrev_np(signal());
    return name != nullptr ? tr("killed by SIG{}", name) : tr("killed by signal {}", signal());
  }
  return tr("ended");
}

}  // namespace xpurun::base
