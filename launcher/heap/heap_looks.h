// HeapLooks: the supervisor's side of the samples of the ranks' memory, and of that of their data loader
// workers (common/wire/heap_segment.h). It creates the memory of each process, tells the process where its
// interpreter keeps frames, and writes who holds the memory as a look (model::LookReason::heap), which
// replaces the one before, every few seconds, and when the process has ended. Event loop's thread only.
#pragma once

#include "common/model/memory/memory_look.h"
#include "common/model/rank_set.h"
#include "launcher/heap/heap_history.h"
#include "launcher/mpi/call_places.h"
#include "launcher/os/sealed_memory.h"
#include "launcher/os/timer.h"
#include "launcher/processes/process_table.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace xpurun::launcher {

class HeapLooks {
 public:
  struct Parts {
    EventLoop& loop;
    ProcessTable& table;
    CallPlaces& places;
  };
  struct Hooks {
    std::function<uint64_t(base::Rank)> steps;         // that the rank has made
    std::function<void(model::MemoryLook look)> keep;  // of a rank
    std::function<void(base::Pid)> look_at;            // a process that the table does not know yet
  };
  // `interval`: mean number of bytes between two samples; 0: no process samples.
  HeapLooks(Parts parts, Hooks hooks, uint32_t interval);

  // Creates the memory of the process and passes its descriptor to `answer`; -1: there is none.
  void attach(base::Pid pid, const std::function<void(int descriptor)>& answer);
  // Looks now, at all ranks or one.
  void look();
  void look(base::Pid pid);
  // Those that sample their memory.
  model::RankSet ranks() const;
  // At the end of the job, when the places are known.
  void finish();

 private:
  struct Process {
    SealedMemory memory;
    HeapHistory history;
    int tries = 0;  // to find the interpreter
    base::MonoNs attached = 0;
    base::MonoNs read = 0;
    base::MonoNs written = 0;
    int64_t written_bytes = 0;
    wire::HeapSegment* segment() const { return static_cast<wire::HeapSegment*>(memory.data()); }
  };

  void tick();
  // Whether the process may still allocate, or become a rank.
  bool read(base::Pid pid, Process& process, base::MonoNs now);
  std::vector<std::pair<base::Pid, const Process*>> workers_of(base::Rank rank) const;
  // With its workers.
  int64_t held_bytes(base::Pid pid, const Process& process) const;
  bool is_worth_a_file(base::Pid pid, const Process& process) const;
  bool is_last_look(base::Pid pid, const Process& process) const;
  void write_rank_of(const TrackedProcess& worker);
  void write(base::Pid pid, Process& process);
  void describe_python(base::Pid pid, Process& process);
  // The process is a rank.
  bool samples(base::Pid pid) const;

  Parts parts_;
  Hooks hooks_;
  uint32_t interval_;
  std::map<base::Pid, Process> processes_;
  Timer timer_;
};

}  // namespace xpurun::launcher
