// Fewer rounds of a property test in a build with sanitizers: that build looks for memory errors, and the
// build without sanitizers has checked the property in all rounds.
#pragma once

#include <cstddef>

namespace xpurun::tests {

constexpr size_t rounds(size_t all) {
#ifdef __SANITIZE_ADDRESS__
  return all / 5;
#else
  return all;
#endif
}

}  // namespace xpurun::tests
