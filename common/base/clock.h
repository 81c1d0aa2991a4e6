// Clocks. MonoNs is CLOCK_MONOTONIC in nanoseconds. Wall time is for display and file names only.
#pragma once

#include <cstdint>
#include <ctime>

namespace xpurun::base {

using MonoNs = int64_t;

inline int64_t read_clock_ns(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

inline MonoNs mono_ns() {
  return read_clock_ns(CLOCK_MONOTONIC);
}
// CPU time of the calling thread.
inline int64_t thread_cpu_ns() {
  return read_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}
// Nanoseconds since the Unix epoch, UTC.
inline int64_t wall_ns() {
  return read_clock_ns(CLOCK_REALTIME);
}

inline double ns_to_s(int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}
inline int64_t s_to_ns(double s) {
  return static_cast<int64_t>(s * 1e9);
}

}  // namespace xpurun::base
