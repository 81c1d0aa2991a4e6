// The times of a run beside those of its replay: model::Replay. Pure.
#pragma once

#include "common/model/speed/replay.h"
#include "report/replay/run_operations.h"

#include <string>
#include <vector>

namespace xpurun::report {

// The repetitions of one operation.
struct Repeated {
  std::vector<double> ns;
  int sm_clock_mhz = -1;
  std::string skipped;  // why there are none
  bool tf32 = false;    // replayed with tensor cores, because the run must have done so
};

struct Measurements {
  model::ReplayDevice device;
  std::vector<Repeated> matmuls;      // of the first ones of RunOperations
  std::vector<Repeated> collectives;  // likewise
  int devices = 0;                    // of the collectives
};

// Ranks below `factor` x median of the ranks are slow.
model::Replay compare_with_replay(const RunOperations& run, Measurements measured, double factor);

}  // namespace xpurun::report
