// RecordedWork: what the GPU of one rank did while every call was recorded, in a trace or in a capture. Plain
// data and pure functions.
#pragma once

#include "common/base/clock.h"
#include "common/model/timing/event_file.h"

#include <cstdint>
#include <string>
#include <vector>

namespace xpurun::report {

// A kernel, a collective, a copy or a graph. Times are ns of CLOCK_MONOTONIC of the rank's host.
struct GpuWork {
  int64_t launch = 0;  // the program's call; not after `begin`
  int64_t begin = 0;
  int64_t end = 0;
  uint32_t name = 0;  // index into names
};

// A call of CUDA on the host.
struct HostCall {
  int64_t begin = 0;
  int64_t end = 0;
  uint32_t name = 0;
};

struct RecordedWork {
  std::vector<std::string> names;
  std::vector<GpuWork> works;   // in order of their begins
  std::vector<HostCall> calls;  // likewise; empty if they were not recorded
  bool cupti = false;
  // Why these times do not show when the GPU was idle; empty if they do.
  std::string problem;
};

// A record that ends at a number of calls may lack work of other streams in its last nanoseconds. Returns how
// many; `length_ns` is the length of the record.
int64_t uncertain_end_ns(int64_t length_ns);

// Takes the bytes of a file as they are: times that no run has are left out.
RecordedWork recorded_work(const model::EventFile& file);

}  // namespace xpurun::report
