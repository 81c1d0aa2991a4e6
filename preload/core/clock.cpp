#include "preload/core/clock.h"

#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {
uint64_t reading_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * kNsPerSecond + static_cast<uint64_t>(now.tv_nsec);
}
}  // namespace

uint64_t now_ns() {
  return reading_of(CLOCK_MONOTONIC);
}

uint64_t coarse_now_ns() {
  return reading_of(CLOCK_MONOTONIC_COARSE);
}

// The sleep goes through syscall(2): nanosleep(3) and ppoll(2) of the C library are cancellation points, and
// a thread that is being cancelled must not unwind out of a signal handler.
void sleep_until(uint64_t deadline_ns) {
  for (uint64_t now = now_ns(); now < deadline_ns; now = now_ns()) {
    const uint64_t left = deadline_ns - now;
    timespec time{static_cast<time_t>(left / kNsPerSecond), static_cast<long>(left % kNsPerSecond)};
    if (syscall(SYS_ppoll, nullptr, 0, &time, nullptr, 0) < 0 && errno != EINTR) {
      return;
    }
  }
}

}  // namespace xpurun::preload
