// What is known of the memory of a job when a rank was killed.
#pragma once

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
// What grew in the window that the rank recorded when its memory grew, on the GPU or on the host: "rank
// 1: 3.1 MiB a step in list losses of train() (train.py:55)".
std::vector<std::string> grower_words(const std::vector<model::MemoryLook>& looks, base::Rank rank,
                                      bool on_gpu);
// What the job's memory control group says; whose process was killed is not known from that. Empty: unknown.
std::string group_words(const model::RunManifest& run);

}  // namespace xpurun::report
