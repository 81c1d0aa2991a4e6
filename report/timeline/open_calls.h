// What had not ended when a dump was made: no event and no span tells of it, because both are written at the
// end of a call. Collectives, and the Python functions in which the culprits of a hang stood, are slices up
// to the dump.
#pragma once

#include "common/base/ids.h"
#include "report/events/activity.h"

#include <map>
#include <string>
#include <vector>

namespace xpurun::report {

enum class OpenRow : uint8_t {
  nccl,
  torch,  // a function of torch.distributed
  stack,  // a frame of the main thread of a culprit
};

struct OpenCall {
  std::string host;      // of the dump
  int64_t begin_ns = 0;  // wall time of the call
  int64_t dump_ns = 0;   // wall time of the last dump that saw the call
  uint64_t meeting = 0;
  uint32_t sequence = 0;
  OpenRow row = OpenRow::nccl;
  Call call;
};

using OpenCalls = std::map<base::Rank, std::vector<OpenCall>>;

// What the dumps of a run directory tell. Calls that a later dump knows as done are left out. Unreadable
// dumps are left out. The frames of a stack follow each other, the outermost first.
OpenCalls open_calls(const std::string& run_dir);

// Adds a slice for each call that no slice of the rank shows as ended. The slices are not in order
// afterwards.
void add_open_calls(Activity& activity, const std::vector<OpenCall>& calls);

}  // namespace xpurun::report
