// Fewer rounds of a property test in a build with sanitizers: that build looks for memory errors, and the
// build without sanitizers has checked the property in all rounds.
#pragma once

#include "common/base/sanitizer.h"

#include <cstddef>

namespace xpurun::tests {

constexpr size_t rounds(size_t all) {
  return base::kAddressSanitizer ? all / 5 : all;
}

}  // namespace xpurun::tests
