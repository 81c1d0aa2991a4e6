// MpiSegments: the supervisor's side of the memory in which the preload library records MPI calls
// (common/wire/mpi_segment.h), for all processes of the job. A segment is created when a process calls
// MPI_Init, and stays readable after the process has died. Event loop's thread only.
#pragma once

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/model/collectives.h"
#include "common/wire/mpi_functions.h"
#include "common/wire/mpi_segment.h"
#include "launcher/mpi/spawned_worlds.h"
#include "launcher/os/sealed_memory.h"
#include "launcher/processes/native_calls.h"

#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace xpurun::launcher {

// The program's line of a call, by its return address; empty if it is not known.
using PlaceOfCall = std::function<model::CodeLocation(uint64_t address)>;

class MpiSegments {
 public:
  // Creates the memory of the process and passes its descriptor to `answer`; -1: there is none.
  void attach(base::Pid pid, const std::function<void(int descriptor)>& answer);
  std::vector<base::Pid> pids() const;
  // The memory of the process, content untrusted; null if it has not called MPI_Init. `number` distinguishes
  // successive processes with one pid.
  struct View {
    const wire::MpiSegment* memory = nullptr;
    uint64_t number = 0;
  };
  View find(base::Pid pid) const;
  // Whether the processes, later ones too, take the times of calls. To be repeated ten times a second: the
  // next call of each thread is then timed, however rarely calls were timed before.
  void record_times(bool wanted);
  // Adds the process's calls, as of `now`, to its rank's facts.
  void add_to(model::CollectiveFacts& facts, base::Pid pid, base::Rank rank, base::MonoNs now,
              const WorldsOfRank& worlds, const PlaceOfCall& place_of) const;
  // The main thread of the process; empty if the process has not called MPI_Init.
  std::optional<NativeCalls> main_thread(base::Pid pid) const;

 private:
  struct Process {
    SealedMemory memory;
    uint64_t number = 0;  // in order of creation
    wire::MpiSegment* segment() const { return static_cast<wire::MpiSegment*>(memory.data()); }
  };

  std::map<base::Pid, Process> processes_;
  uint64_t attached_ = 0;
  bool records_times_ = false;
};

// Of an untrusted number.
const wire::MpiFunctionInfo& info_of(uint32_t function);
// "world", or 16 digits; equal on all ranks of the communicator.
std::string id_of(const wire::MpiComm& comm);
// Reads a segment, whose content is untrusted.
std::vector<model::Communicator> read_mpi_calls(const wire::MpiSegment& memory, base::MonoNs now,
                                                const WorldsOfRank& worlds = {},
                                                const PlaceOfCall& place_of = {});

}  // namespace xpurun::launcher
