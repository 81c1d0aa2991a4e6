// What kind of process has loaded this library: its C library, and sanitizer runtimes that want to come
// first.
#pragma once

namespace xpurun::preload {

// False in a program of another C library. musl's loader accepts this library (it takes libc.so.6 for
// itself), but nothing here has been built for musl, so everything stays off.
bool has_glibc();

}  // namespace xpurun::preload
