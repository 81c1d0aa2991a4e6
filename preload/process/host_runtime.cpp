#include "preload/process/host_runtime.h"

extern "C" {

// Weak: a loader leaves the address null where the C library lacks the function.
__attribute__((weak)) const char* gnu_get_libc_version();

// AddressSanitizer's runtime ends a program at startup ("ASan runtime does not come first in initial library
// list") if any other library precedes it, because functions of the other library could hide ASan's.
// LD_PRELOAD puts this library first; of ASan's functions it defines only sigaction and its relatives, which
// call the next definition, hence ASan's. This function is ASan's documented way to set options at build
// time; it works at any depth of the process tree, where environment variables may not arrive. The launcher
// detects a program that defines it itself (launcher/spawn/preload_reach.h).
__attribute__((visibility("default"))) const char* __asan_default_options() {
  return "verify_asan_link_order=0";
}
}

namespace xpurun::preload {

bool has_glibc() {
  return gnu_get_libc_version != nullptr;
}

}  // namespace xpurun::preload
