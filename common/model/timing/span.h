// Spans: what the program of a rank did in intervals of a step, as Python's bootstrap saw it. The files
// ranks/<rank>/spans-<n>.xsp and functions-<n>.xsp hold them (docs/spans.md). Spans of one thread nest; a
// span is written when it ends, so a parent follows its children.
#pragma once

#include "common/base/clock.h"
#include "common/model/names.h"
#include "common/model/timing/event_file.h"
#include "common/model/verdict.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

enum class Stage : uint8_t {
  other,
  data,      // waiting for the next batch
  forward,   // from the batch to backward, inferred
  backward,  // Tensor.backward, autograd.backward
  optimizer,
  communication,  // a call of torch.distributed or MPI
  checkpoint,     // torch.save, torch.load
  evaluation,
  garbage,   // Python's garbage collection
  function,  // a function that the user named
  mark,      // a step ended here, as the program said; no duration
};
template <>
inline constexpr std::array<std::string_view, 11> kNames<Stage>{
    "other",      "data",       "forward", "backward", "optimizer", "communication",
    "checkpoint", "evaluation", "garbage", "function", "mark"};

struct Span {
  base::MonoNs begin_ns = 0;  // CLOCK_MONOTONIC of the rank's host
  int64_t duration_ns = 0;
  int64_t cpu_ns = -1;  // CPU time of the calling thread; negative: unknown. 0 for MPI, which spins while it
                        // waits
  Stage stage = Stage::other;
  uint32_t name = 0;    // index into SpanFile::names: "DataLoader.__next__", "all_reduce"
  uint32_t place = 0;   // index: nearest caller outside torch, "train.py:40 (collate)"; 0: unknown
  uint32_t thread = 0;  // thread id as the rank sees it
  uint32_t group = 0;   // communication: index of the group's id, equal on all its ranks; 0: none. Of a send
                        // or recv pair_group()
  uint64_t sequence = 0;        // communication: number of the call in its group, from 1; 0: none
  uint64_t bytes = 0;           // communication: 0: unknown
  bool mpi_collective = false;  // not in files: is_mpi_collective()
  bool inferred = false;        // from the spans around it; a property of the name in files
};

// The group of a send and its recv: "abc.0 1>2", from rank 1 to rank 2 of the group abc.0.
// `objects`: of send_object_list, which counts apart.
std::string pair_group(std::string_view group, uint64_t from, uint64_t to, bool objects);
// "abc.0" of "abc.0 1>2"; the text itself if it names no pair.
std::string_view whole_group(std::string_view group);
inline bool is_pair_group(std::string_view group) {
  return whole_group(group).size() != group.size();
}

// Of a place, "train.py:40 (collate)"; empty if it has no line.
CodeLocation location_of(std::string_view place);

// The span of a call of MPI. The places of such calls are exact, and all calls of the program are seen.
inline bool is_mpi_call(std::string_view name) {
  return name.starts_with("MPI_");
}
// A collective, by the texts of name and group: all ranks of the group call it, in one order.
inline bool is_mpi_collective(std::string_view name, std::string_view group) {
  return is_mpi_call(name) && !group.empty() && !is_pair_group(group);
}

// Calls of a function that have no spans of their own: of a traced function, because they were too short; of
// MPI, because they came too often.
struct ShortCalls {
  base::MonoNs begin_ns = 0;  // of the first call
  int64_t duration_ns = 0;    // until the end of the last one; the time between the calls is in it
  int64_t total_ns = 0;       // of all calls together; of MPI estimated by the calls that were timed
  uint64_t calls = 0;
  uint32_t name = 0;  // index into SpanFile::names
  uint32_t thread = 0;
  uint32_t place = 0;  // of MPI; index
  uint64_t bytes = 0;  // of all calls together, of MPI
};

// GPU memory of a rank by PyTorch's allocator, on the current device, after a step of the optimizer.
struct GpuMemory {
  int64_t allocated_bytes = -1;  // in tensors; negative: unknown, then the others too
  int64_t reserved_bytes = -1;   // taken from the device, the allocated bytes included
  int64_t peak_bytes = -1;       // most that was allocated
  int64_t total_bytes = -1;      // of the device

  bool known() const { return allocated_bytes >= 0; }
};

// The load of a process, about once a second: totals since its start, and its memory.
struct LoadSample {
  base::MonoNs at_ns = 0;
  int64_t cpu_ns = 0;        // CPU time of all threads
  int64_t run_delay_ns = 0;  // time that its threads were ready to run and had no CPU; negative: unknown
  int64_t major_faults = 0;
  // Since the first sample; negative: unknown. The limits of the process's control groups throttled it for:
  int64_t throttled_ns = -1;
  int64_t stolen_ns = -1;  // the hypervisor took from a thread that had a CPU
  // Memory in RAM at this moment; negative: unknown.
  int64_t resident_bytes = -1;
  int64_t private_bytes = -1;  // the part of it that belongs to no file and to no shared memory
  int64_t helpers_bytes = -1;  // private memory of the processes that its main thread has started
  GpuMemory gpu;
};

struct SpanFile {
  EventFileHeader header;
  std::vector<std::string> names{""};  // index 0: none
  std::vector<Span> spans;             // in order of their ends
  std::vector<LoadSample> loads;
  std::vector<ShortCalls> short_calls;
  std::string backend;  // of torch's default process group, "gloo"; empty: unknown
  uint64_t lost = 0;    // spans that found no room
  // False if the end is missing or damaged. Everything before that is kept.
  bool complete = true;
};

}  // namespace xpurun::model
