// Findings about GPUs: what to do about the facts that NVML counts, and GPUs that differ from the others of
// the job. Pure.
#pragma once

#include "report/run/run_report.h"

#include <string_view>
#include <vector>

namespace xpurun::report {

struct Advice {
  Severity severity = Severity::note;
  std::string_view next;  // of later()
  std::string_view command;
};

// Of the facts about GPUs; empty for others.
Advice gpu_advice(model::MachineFact fact);

// A GPU with a lower power limit or clock, fewer PCIe lanes or other modes than the other GPUs of its model,
// and memory that was damaged before the run began.
void add_gpu_findings(const RunReport& report, std::vector<Finding>& out);

}  // namespace xpurun::report
