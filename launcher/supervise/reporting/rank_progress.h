// The progress of one process of the job, as /metrics shows it.
#pragma once

#include "common/model/timing/span.h"
#include "launcher/processes/process_table.h"
#include "launcher/speed/step_watch.h"
#include "launcher/timing/timing_service.h"

#include <optional>

namespace xpurun::launcher {

struct ProgressSources {
  const ProcessTable& table;
  const StepWatch& steps;
  double hang_timeout_s = 0;  // 0: hangs are not watched for
  bool stall_open = false;
};

// `still_s`: seconds since the last progress; empty if the process is not watched. `load`: the latest sample
// of the process; empty without one.
TimingService::RankProgress rank_progress(const ProgressSources& sources, base::Pid pid,
                                          std::optional<double> still_s,
                                          const std::optional<model::LoadSample>& load);

}  // namespace xpurun::launcher
