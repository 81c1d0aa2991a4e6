#include "common/base/os/wait_status.h"

#include "common/base/tr.h"

#include <fmt/format.h>

#include <cstring>

namespace xpurun::base {

std::string signal_name(int number) {
  const char* abbreviation = ::sigabbrev_np(number);
  return abbreviation != nullptr ? fmt::format("SIG{}", abbreviation) : tr("signal {}", number);
}

std::string WaitStatus::text() const {
  if (exited()) {
    return tr("exited with status {}", exit_code());
  }
  if (signaled()) {
    return tr("killed by {}", signal_name(signal()));
  }
  return tr("ended");
}

}  // namespace xpurun::base
