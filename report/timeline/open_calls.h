// Collectives that had not ended when a dump was made: no event and no span tells of them, because both are
// written at the end of a call. They are slices up to the dump.
#pragma once

#include "common/base/ids.h"
#include "report/events/activity.h"

#include <map>
#include <string>
#include <vector>

namespace xpurun::report {

struct OpenCall {
  std::string host;      // of the dump
  int64_t begin_ns = 0;  // wall time of the call
  int64_t dump_ns = 0;   // wall time of the last dump that saw the call
  uint64_t meeting = 0;
  uint32_t sequence = 0;
  bool python = false;  // a function of torch.distributed
  Call call;
};

using OpenCalls = std::map<base::Rank, std::vector<OpenCall>>;

// What the dumps of a run directory tell. Calls that a later dump knows as done are left out. Unreadable
// dumps are left out.
OpenCalls open_calls(const std::string& run_dir);

// Adds a slice for each call that no slice of the rank shows as ended. The slices are not in order
// afterwards.
void add_open_calls(Activity& activity, const std::vector<OpenCall>& calls);

}  // namespace xpurun::report
