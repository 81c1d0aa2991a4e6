// Occurrences: what happened around the verdict, from all sources, in the order of one clock. Pure.
#pragma once

#include "report/run/run_report.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct Occurrence {
  double at_s = 0;  // since the run began
  std::string text;
  bool of_machine = false;  // from the kernel log or a counter
  bool of_kill = false;     // the kernel killed for lack of memory
};

// Ordered by time; at most about 20.
std::vector<Occurrence> occurrences_of(const RunReport& report);

// The list as a finding, where the kernel log or a counter adds something to what the verdict says.
void add_occurrences(const RunReport& report, std::vector<Finding>& out);

}  // namespace xpurun::report
