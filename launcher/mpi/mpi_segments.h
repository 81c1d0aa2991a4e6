// MpiSegments: the supervisor's side of the memory in which the preload library records MPI calls
// (common/wire/mpi_segment.h), for all processes of the job. A segment is created when a process calls
// MPI_Init, and stays readable after the process has died. Event loop's thread only.
#pragma once

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/model/collectives.h"
#include "common/wire/mpi_segment.h"
#include "launcher/os/sealed_memory.h"
#include "launcher/processes/native_calls.h"

#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace xpurun::launcher {

class MpiSegments {
 public:
  // Creates the memory of the process and passes its descriptor to `answer`; -1: there is none.
  void attach(base::Pid pid, const std::function<void(int descriptor)>& answer);
  std::vector<base::Pid> pids() const;
  // Adds the process's calls, as of `now`, to its rank's facts.
  void add_to(model::CollectiveFacts& facts, base::Pid pid, base::Rank rank, base::MonoNs now) const;
  // The main thread of the process; empty if the process has not called MPI_Init.
  std::optional<NativeCalls> main_thread(base::Pid pid) const;

 private:
  const wire::MpiSegment* find(base::Pid pid) const;

  std::map<base::Pid, SealedMemory> processes_;
};

// Reads a segment, whose content is untrusted.
std::vector<model::Communicator> read_mpi_calls(const wire::MpiSegment& memory, base::MonoNs now);

}  // namespace xpurun::launcher
