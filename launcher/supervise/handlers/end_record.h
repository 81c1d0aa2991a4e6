// EndRecord: completes run.json and the files of the ranks when the job has ended. Event loop's thread only.
#pragma once

#include "launcher/ending/job_state.h"
#include "launcher/journal/journal.h"
#include "launcher/processes/process_table.h"
#include "launcher/supervise/handlers/recorded_calls.h"

#include <functional>

namespace xpurun::launcher {

class EndRecord {
 public:
  struct Parts {
    Journal& journal;
    const ProcessTable& table;
    const JobState& job;
    const RecordedCalls& calls;
  };
  struct Hooks {
    std::function<void()> find_deaths;  // deaths that nobody has noticed yet
    std::function<bool()>
        restart_pending;  // xpurun has ended the ranks, and the launcher has started no others
    std::function<model::Interrupt()> interrupt;
    std::function<void()> finish_files;  // of timing and spans
    std::function<void()> recorded;
  };

  EndRecord(Parts parts, Hooks hooks);

  void write();
  // A rank was killed: what the memory control group says goes into run.json.
  void note_memory();

 private:
  Parts parts_;
  Hooks hooks_;
  model::MemoryGroup at_start_;
};

}  // namespace xpurun::launcher
