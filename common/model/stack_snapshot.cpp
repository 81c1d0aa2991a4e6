#include "common/model/stack_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace xpurun::model {

const ThreadStack* ProcessStacks::main_thread() const {
  for (const ThreadStack& t : threads) {
    if (t.main) {
      return &t;
    }
  }
  return nullptr;
}

std::string fatal_words(const ProcessStacks& process) {
  const FatalSignal& f = process.fatal_signal;
  if (f.empty()) {
    return {};
  }
  const char* name = ::sigabbrev_np(f.signal);
  std::string out =
      name != nullptr ? fmt::format("died of SIG{}", name) : fmt::format("died of signal {}", f.signal);
  const auto thread = std::find_if(process.threads.begin(), process.threads.end(),
                                   [](const ThreadStack& t) { return t.crashed; });
  if (thread != process.threads.end() && !thread->cpp_exception.empty()) {
    out += fmt::format(" ({})", headline(thread->cpp_exception));
  } else if (f.has_address) {
    out += fmt::format(" (address {:#x})", f.address);
  } else if (f.sender != 0 && f.sender != process.pid) {
    out += fmt::format(" (sent by pid {})", f.sender);
  }
  return out;
}

}  // namespace xpurun::model
