#include "preload/process/host_runtime.h"

extern "C" {

// Weak: a loader leaves the address null where the C library lacks the function.
__attribute__((weak)) const char* gnu_get_libc_version();

// AddressSanitizer's runtime ends a program at the start ("ASan runtime does not come first in initial
// library list") if any other library precedes it, because functions that the other library defines could
// hide ASan's. LD_PRELOAD puts this library first; of ASan's functions it defines only sigaction and its
// relatives, which call the next definition, hence ASan's. This function is ASan's documented way to set
// options at build time; it works at any depth of the process tree, where no environment variable is sure to
// arrive. A program that defines it itself is found by the launcher (launcher/spawn/preload_reach.h).
__attribute__((visibility("default"))) const char* __asan_default_options() {
  return "verify_asan_link_order=0";
}
}

namespace xpurun::preload {

bool has_glibc() {
  return gnu_get_libc_version != nullptr;
}

}  // namespace xpurun::preload
