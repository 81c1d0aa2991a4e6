// Counters of a rank beside its slices: load of the process, queue of the GPU, clocks of the GPU.
#pragma once

#include "common/model/timing/event_file.h"
#include "common/model/timing/span.h"
#include "report/events/activity.h"
#include "report/timeline/coverage/recorded_calls.h"

#include <string>

namespace xpurun::report {

// CPU time, time without a CPU and page faults from one sample to the next.
void add_load(Activity& activity, const model::SpanFile& file);
// Who had the CPUs of the rank while its threads were ready to run, from machine.json. Does nothing if there
// is none.
void add_intruders(Activity& activity, const std::string& machine_json);
// Work that was launched and has not begun. Only for files that hold all work of the GPU.
void add_queue(Activity& activity, const model::EventFile& file);
// Medians of clocks.json beside a file of a capture, over the time of the file. Does nothing if there is
// none.
void add_clocks(Activity& activity, const model::EventFile& file, const std::string& clocks_json);
// Mean SM clocks of the windows of a run's gpu-health.json that touch the time of the file.
void add_run_clocks(Activity& activity, const model::EventFile& file, const std::string& gpu_health_json);

// Samples of hardware counters, thinned to the means of neighbours. The file lies beside one of a capture.
void add_resources(Activity& activity, const std::string& resource_file);

// What lies beside the file `path` and is known of it: queue, clocks and hardware counters for the files of
// traces and captures.
void add_gpu_counters(Activity& activity, const model::EventFile& file, RecordedCalls recorded,
                      const std::string& path);

}  // namespace xpurun::report
