// The kind of process that has loaded this library: its C library, and sanitizer runtimes that must come
// first.
#pragma once

namespace xpurun::preload {

// False in a program with another C library. musl's loader accepts this library (it takes libc.so.6 for
// itself), but nothing here is built for musl, so everything stays off.
bool has_glibc();

}  // namespace xpurun::preload
