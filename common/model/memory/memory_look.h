// MemoryLook: who held the memory of one rank at one moment. preload/python/xpurun_memory.py sends a look as
// a message; the supervisor keeps the newest of each reason in ranks/<rank>/memory-<reason>.json. A snapshot
// of PyTorch is read into the same form. The content comes from the job and is not trusted.
#pragma once

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/model/names.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kMemoryLookSchema = "xpurun.memory/1";
inline constexpr std::string_view kMemoryFilePrefix = "memory-";

enum class LookReason {
  first,          // the second step of the job
  time,           // every ten minutes
  request,        // the user has asked
  growth,         // the memory grew
  full,           // more than 85 % of the GPU were in use
  peak,           // during a window of one of these: before a backward pass
  out_of_memory,  // the allocator found no memory
  snapshot,       // a file of PyTorch
  heap,           // no look of the rank: the samples of its host memory (common/wire/heap_segment.h)
};
template <>
inline constexpr std::array<std::string_view, 9> kNames<LookReason> = {
    "first", "time", "request", "growth", "full", "peak", "out_of_memory", "snapshot", "heap"};

enum class MemoryCategory {
  parameters,
  gradients,
  optimizer,      // its state
  activations,    // tensors with a gradient function, and blocks that no tensor of Python refers to
  buffers,        // of modules
  tensors,        // other tensors of the program
  communication,  // buckets of DistributedDataParallel
  workspace,      // of cuBLAS
  graphs,         // pools of CUDA graphs
  pinned,         // host memory
  shared,         // host memory
  objects,        // of Python, allocated in the window
  pending,        // freed, but a stream still uses it
  unused,         // reserved by the allocator
  heap,           // host memory by malloc() and its like, sampled
  workers,        // likewise, of the rank's data loader workers
  outside,        // of the GPU, not by this allocator: context, NCCL, other libraries, other processes
};
template <>
inline constexpr std::array<std::string_view, 17> kNames<MemoryCategory> = {
    "parameters",    "gradients", "optimizer", "activations", "buffers", "tensors",
    "communication", "workspace", "graphs",    "pinned",      "shared",  "objects",
    "pending",       "unused",    "heap",      "workers",     "outside"};

struct MemoryPlace {
  std::string file;  // as the interpreter has it
  int line = 0;
  std::string function;
  bool operator==(const MemoryPlace&) const = default;
};

// Memory of one kind with one owner, allocated by one stack.
struct MemoryHolder {
  std::string device;  // "cuda:0", "cpu", "host", "python"
  MemoryCategory category = MemoryCategory::tensors;
  std::string name;  // "GPT.layers.#.mlp.weight", "list losses of train() (train.py:55)"; empty: unknown
  int64_t bytes = 0;
  int64_t count = 0;           // blocks or objects
  int64_t grown = 0;           // bytes since the begin of the window
  int rest = 0;                // 1: the sum of smaller holders of the category
  uint64_t stream = 0;         // 0: the default stream, or unknown
  std::vector<uint32_t> site;  // places of the allocation, innermost first; empty: not recorded
};

struct MemoryDevice {
  std::string name;
  int64_t total = 0;      // of the GPU
  int64_t free = 0;       // of the GPU
  int64_t reserved = 0;   // by the allocator
  int64_t allocated = 0;  // by the allocator; "cpu": by all tensors; "host": by all samples; "python": in the
                          // window
  int64_t peak = 0;       // most that was allocated
  int64_t unused = 0;     // reserved and not allocated
  int64_t largest = 0;    // the largest block of that
  int expandable = 0;     // 1: has expandable segments
};

struct MemoryLook {
  base::Rank rank = base::kNoRank;  // set by the supervisor, like pid, host and at_s
  base::Pid pid = 0;
  std::string host;
  double at_s = 0;  // since the start of the run
  LookReason why = LookReason::first;
  uint64_t step = 0;         // steps that the optimizer had made
  uint64_t steps = 0;        // of the window; 0: there was none
  int64_t window_us = 0;     // its length
  uint32_t request = 0;      // number of the supervisor's latest request
  base::MonoNs at_ns = 0;    // CLOCK_MONOTONIC
  int64_t wall_ns = 0;       // UTC
  int64_t cost_us = 0;       // of the look itself
  uint64_t errors = 0;       // looks and parts of looks that failed, in the process so far
  int64_t asked = 0;         // out_of_memory: bytes
  std::string asked_device;  // out_of_memory
  std::vector<MemoryDevice> devices;
  std::vector<MemoryPlace> places;
  std::vector<MemoryHolder> holders;

  const MemoryDevice* device(std::string_view name) const;
};

// A message of the bootstrap, or a file. Names and places are made safe to print, numbers are not negative,
// and sites have valid indexes.
base::Result<MemoryLook> memory_look_from_json(std::string_view json);
// Whether `json` claims to be such a message.
bool is_memory_look(std::string_view json);
std::string memory_look_json(const MemoryLook& look);

}  // namespace xpurun::model
