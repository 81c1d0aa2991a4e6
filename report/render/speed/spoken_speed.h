// The sections "Speed" and "Pipeline" in the language that the thread speaks (common/base/tr.h).
#pragma once

#include "report/run/run_report.h"

namespace xpurun::report {

// Words the sentences again. For people only: files for programs are written before.
void translate_speed(model::SpeedReport& speed);
void translate_speed(RunReport& report);

}  // namespace xpurun::report
