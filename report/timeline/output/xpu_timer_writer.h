// xpu_timer's files for its programs: RRRRR-WWWWW.timeline (protobuf KernelTraces), RRRRR-WWWWW.timeline.meta
// (names), and matmul_dpW.bin (protobuf RankMatmulInfo). Field numbers are those of its hook.proto. Pure.
#pragma once

#include "report/events/activity.h"

#include <cstdint>
#include <map>
#include <string>

namespace xpurun::report {

struct XpuTimerFiles {
  std::string timeline;
  std::string meta;
  uint64_t slices = 0;
  // Kernels, graphs and calls on the host, for which the format has no place.
  uint64_t left_out = 0;
};

class XpuTimerWriter {
 public:
  // `shift_ns` is added to all times.
  XpuTimerFiles add(const Activity& activity, int64_t shift_ns);
  // The throughput of every matmul of the ranks so far, by rank and problem; empty without matmuls.
  std::string matmuls() const;

 private:
  // By rank, then by the bytes of MatmulDebugData: TFLOP/s of each call.
  std::map<base::Rank, std::map<std::string, std::vector<double>>> matmuls_;
};

// "00003-00008.timeline"
std::string xpu_timer_name(base::Rank rank, int world_size);

}  // namespace xpurun::report
