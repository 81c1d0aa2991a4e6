// What is known of the memory of a job when a rank was killed.
#pragma once

#include "common/model/evidence/kernel_events.h"
#include "common/model/evidence/machine.h"
#include "common/model/exception.h"
#include "common/model/memory/memory_look.h"
#include "common/model/run_manifest.h"
#include "report/diagnosis/ends/endings.h"

#include <optional>
#include <string>
#include <vector>

namespace xpurun::report {

// "; it had 812 MiB in RAM and was last seen in remember (oom.py:8)": of a rank that left no stack.
std::string last_seen_words(const Ending& e);
// "3.1 MiB a step, from 1.2 GiB at step 200 to 7.9 GiB at step 2300"; "40 MiB a minute, from 1.2 GiB to 7.9
// GiB within 2 h" where the steps are not known.
std::string growth_words(const model::MemoryGrowth& growth);
// What PyTorch's allocator held on the rank's GPU before the rank ran out of it, beside the other ranks; a
// growth too. Empty: unknown.
std::vector<std::string> gpu_memory_words(const model::RunManifest& run, const model::ProcessRecord& rank);
// What held the GPU memory of the rank, by category and by holder, and what the rank held more of than the
// other ranks. Empty: the rank has not looked at its memory.
std::vector<std::string> held_words(const std::vector<model::MemoryLook>& looks, base::Rank rank);
// What to do about a full GPU, with the bytes that it wins; nothing if nobody knows what holds the memory.
std::optional<std::string> advice_on_full_gpu(const model::OutOfMemory& full,
                                              const std::vector<model::MemoryLook>& looks, base::Rank rank);
// The same, or advice_on() the exception.
std::string advice_on_exception(const model::PythonException& exception,
                                const std::vector<model::MemoryLook>& looks, base::Rank rank);
// Ranks in which one line has gathered much memory over many steps until the end, by the samples of the host
// memory.
model::RankSet gathering_ranks(const std::vector<model::MemoryLook>& looks);
// What grew by the samples of the host memory, and in the window that the rank recorded when its memory grew,
// on the GPU or on the host: "rank 1: 3.1 MiB a step in list losses of train() (train.py:55)".
std::vector<std::string> grower_words(const std::vector<model::MemoryLook>& looks, base::Rank rank,
                                      bool on_gpu);
// Which lines have allocated most of the host memory that the rank holds, beside the other ranks. Empty: not
// sampled.
std::vector<std::string> heap_words(const std::vector<model::MemoryLook>& looks, base::Rank rank);
// The line that has allocated what the rank keeps, if it grew, or if it is most of what the rank holds, by
// the samples of the host memory. No import.
model::HeldMemory held_by_line(const std::vector<model::MemoryLook>& looks, base::Rank rank);
// "; it had 726 MiB in RAM, 540 MiB of them allocated at train.py:8 (main), 1.0 MiB more in each step"
std::string held_by_line_words(const model::ProcessRecord& rank, const model::HeldMemory& held);
// The kernel kills the largest process. What another rank holds more of than any other, far more than the
// killed rank does of anything: that has filled the memory. kNoRank: nothing does.
struct HeldElsewhere {
  base::Rank rank = base::kNoRank;
  model::HeldMemory held;
  bool by_workers = false;     // by other processes of the rank
  int64_t most_of_others = 0;  // what one of the other ranks holds of it
};
HeldElsewhere held_elsewhere(const std::vector<model::MemoryLook>& looks, base::Rank killed);
// "; rank 1 holds 548 MiB that were allocated at decode (clips.py:10), 10 MiB more in each step, each of the
// others at most 2.0 MiB"
std::string held_elsewhere_words(const HeldElsewhere& other);
// What the job's memory control group says; whose process was killed is not known from that. Empty: unknown.
std::string group_words(const model::RunManifest& run);
// Whose the memory of the rank's control group was at the last reading before a moment, in seconds since the
// first reading. Empty: unknown.
std::string group_use_words(const model::MachineHistory& machine, base::Rank rank, double until_s);

// The line of the kernel's log about the death of this process for lack of memory; null if there is none.
const model::KernelEvent* oom_kill_of(const model::KernelEvents& kernel, size_t node, base::Pid pid,
                                      double died_s);
// " (out of memory: the kernel killed it ...)"
std::string out_of_memory_words(const model::KernelEvent& kill);
// What to do about what a line keeps, if it grows in each step, and if it does not.
std::string advice_on_growth(const model::HeldMemory& held);
std::string advice_on_held(const model::HeldMemory& held);
// `limit`: of a control group.
model::NextStep advice_on_memory(bool limit);

}  // namespace xpurun::report
