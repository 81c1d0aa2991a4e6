// Recorder: samples the stacks of live processes, at a random moment of each interval. Python stacks alone
// are read without stopping the processes. Blocks the calling thread. SIGINT and SIGTERM end a recording
// early; the samples so far count.
#pragma once

#include "common/base/result.h"
#include "launcher/stacks/dump_job.h"
#include "report/profile/profile.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

enum class RecordThreads {
  main,          // the main thread of each process
  main_and_gil,  // likewise, and another thread while it holds the GIL
  gil,           // the thread that holds the GIL, if any
  all,
};

struct RecordOrder {
  double seconds = 10;
  double rate = 100;  // samples a second of each process
  RecordThreads threads = RecordThreads::main;
  bool native = false;   // native frames and operations of PyTorch too (dumped_samples.h)
  bool off_cpu = false;  // only samples off the CPU, with the reason as the innermost frame
};

// The targets without Python are named in the notes. Fails if no target can be sampled. If sampling takes
// longer than the interval, samples are left out and a note says so.
base::Result<report::Profile> record(const std::vector<DumpTarget>& targets, const RecordOrder& order);

}  // namespace xpurun::launcher
