#include "launcher/watch/native_spin.h"

#include "common/base/hash.h"

namespace xpurun::launcher {

bool NativeSpin::moves(const stackdump::Registers& registers) {
  uint64_t state = 0;
  for (const uint64_t value : registers.r) {
    state = base::hash_words(state, {value});
  }
  if (states_.size() >= kMost) {
    states_.clear();
  }
  return states_.insert(state).second;
}

}  // namespace xpurun::launcher
