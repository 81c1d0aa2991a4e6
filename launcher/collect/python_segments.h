// PythonSegments: the supervisor's side of the memory in which Python's bootstrap records the calls of
// torch.distributed and spans, and a program in C its marks (common/wire/python_segment.h), for all processes
// of the job. A segment is created when a process requests it, and stays readable after the process has died.
// Event loop's thread only.
#pragma once

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/model/collectives.h"
#include "common/model/timing/span.h"
#include "common/wire/python_segment.h"
#include "launcher/os/sealed_memory.h"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace xpurun::launcher {

// The writer of a segment. A process may have one segment of each writer.
enum class SpanWriter { python, marks };

// The functions to trace from now on.
struct TracedList {
  std::string names;   // with commas
  double least_s = 0;  // shorter calls are summed up
};

// A look at the memory that the processes shall make; wire::PythonSegment says more.
struct LookOrder {
  wire::MemoryReason reason = wire::kMemoryRequest;
  uint32_t steps = 0;    // of the window; 0: at once
  bool objects = false;  // also at what Python allocates in the window
};

class PythonSegments {
 public:
  // The descriptor to send; valid until sent(). A process that requests again gets a new segment, and counts
  // as a new process.
  base::Result<int> attach(base::Pid pid, SpanWriter writer = SpanWriter::python);
  // Closes the descriptor; the mapping stays.
  void sent(base::Pid pid);
  std::vector<base::Pid> pids() const;
  bool empty() const { return processes_.empty(); }
  // The memory of the process, content untrusted; null if the process has not requested any. `number`
  // distinguishes successive processes with one pid.
  struct View {
    const wire::PythonSegment* memory = nullptr;
    const wire::PythonSegment* marks = nullptr;
    uint64_t number = 0;
  };
  View find(base::Pid pid) const;
  // Whether the processes, later ones too, write spans.
  void record_spans(bool wanted);
  // Frees the spans of a process that has ended. They read as zero then; the calls stay.
  void release_spans(base::Pid pid);
  // Gives the Python processes, later ones too, the list of functions to trace. A list that does not fit the
  // memory is refused.
  base::Status trace_functions(const TracedList& list);
  // Whether the process traces the functions of the latest list.
  bool follows_list(base::Pid pid) const;
  // Asks the process for a look at its memory. The number of the order, from 1; 0: the process has no memory
  // to be asked through.
  uint32_t order_look(base::Pid pid, const LookOrder& order);

  // Adds all recorded calls of the process, as of `now`, to its rank's facts.
  void add_to(model::CollectiveFacts& facts, base::Pid pid, base::Rank rank, base::MonoNs now) const;

 private:
  struct Process {
    std::array<SealedMemory, 2> segments;  // by SpanWriter
    uint64_t number = 0;                   // in order of creation
    wire::PythonSegment* memory(SpanWriter writer) const {
      return static_cast<wire::PythonSegment*>(segments[static_cast<size_t>(writer)].data());
    }
  };
  void put_list(wire::PythonSegment& memory) const;

  std::map<base::Pid, Process> processes_;
  uint64_t attached_ = 0;
  bool records_spans_ = false;
  TracedList list_;
  uint32_t changes_ = 0;  // of the list, since the start of the run
  uint32_t looks_ = 0;    // number of the latest order
};

// The text, safe to print; empty if the reference is not valid.
std::string text_at(const wire::PythonSegment& memory, wire::TextRef ref);
// The process's rank in the default process group of torch, and the size of the group.
struct GroupMember {
  base::Rank rank = base::kNoRank;
  int size = 0;
};
std::optional<GroupMember> default_group(const wire::PythonSegment& memory);
// The backend of that group; empty: unknown.
std::string default_backend(const wire::PythonSegment& memory);
// GPU memory of the process, if its latest sample is not older than a few seconds.
std::optional<model::GpuMemory> gpu_memory_in(const wire::PythonSegment& memory, base::MonoNs now);
// Reads the groups of a segment, whose content is untrusted.
std::vector<model::Communicator> read_groups(const wire::PythonSegment& memory, base::MonoNs now);

}  // namespace xpurun::launcher
