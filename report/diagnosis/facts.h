// Facts: the contents of a run directory, the input of the diagnosis.
#pragma once

#include "common/model/collectives.h"
#include "common/model/dump_manifest.h"
#include "common/model/evidence/gpu_state.h"
#include "common/model/evidence/kernel_events.h"
#include "common/model/evidence/machine.h"
#include "common/model/memory/memory_look.h"
#include "common/model/run_manifest.h"
#include "common/model/stack_snapshot.h"
#include "common/model/timing/speed_report.h"

#include <optional>
#include <string>
#include <vector>

namespace xpurun::report {

struct Facts {
  model::RunManifest run;
  std::optional<model::DumpManifest> dump;   // the dump named by dump_that_matters(), if readable
  std::vector<model::ProcessStacks> stacks;  // of that dump, all roles
  model::CollectiveFacts collectives;        // of that dump; empty if none were recorded
  model::CollectiveFacts at_end;             // of a job that ended well and left requests of MPI
  model::CollectiveFacts mismatch;           // at the moment of a silent mismatch; empty if there was none
  std::string dump_dir;                      // "dumps/1-hang"; empty without a dump
  model::GpuState gpus;                      // of this host at that dump; empty if unknown
  model::KernelEvents kernel;                // from the start of the run until that dump
  std::string kernel_gap;                    // why the kernel log of that dump is missing; empty if it is not
  std::vector<model::MachineHistory> machines;  // by node of the job, on this node's clock
  std::vector<model::MemoryLook> memory;        // of the ranks, by rank and time
  std::vector<model::SpeedFinding> slow;        // of a job that ended well, most important first
  bool measured = true;     // unless the rank of a job that ended well has neither spans nor timed calls
  bool steps_only = false;  // the verdict is on the steps alone, also of a job that runs
  std::vector<model::StagePause> pauses;  // likewise: its checkpoints and evaluations
};

}  // namespace xpurun::report
