// When the GPU of a rank was idle, and why. Pure.
//
// A gap is a time in which no work was running. Nothing begins inside a gap, so work that was launched before
// or in the gap waits until its end. From the launch on, plus kLaunchNs for the way to an idle GPU, the gap
// is a kernel wait: the work was there, and waited for its turn. Before the launch, the gap is a host wait:
// the host had not launched the next work. Time inside a collective that waits for other ranks is not a gap.
#pragma once

#include "report/gpu_work/recorded_work.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace xpurun::report {

// From a call to the begin of its work on an idle GPU.
inline constexpr int64_t kLaunchNs = 20'000;

struct Gap {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t kernel_wait = 0;  // ns of it
  uint32_t after = 0;       // names
  uint32_t before = 0;

  int64_t length() const { return end - begin; }
};

struct IdleGaps {
  int64_t begin = 0;  // of the first work
  int64_t end = 0;
  size_t works = 0;  // that began in this time
  int64_t idle = 0;
  int64_t kernel_wait = 0;
  int64_t between_steps = 0;  // idle, with the end of a step between the launches before and after
  std::vector<Gap> longest;   // the longest first

  int64_t host_wait() const { return idle - kernel_wait; }
};

// Until `until`, or the end of the last work if that is earlier. At most `most` gaps. `step_ends`: of the
// host, in order.
IdleGaps idle_gaps(const RecordedWork& work, int64_t until, size_t most,
                   std::span<const int64_t> step_ends = {});

}  // namespace xpurun::report
