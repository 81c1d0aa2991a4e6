// *.stacks.json: the stacks of one process, written by xpurun-stackdump (docs/rundir.md). The file holds each
// distinct frame once, in a table, and threads hold indices into the table. Readers ignore unknown keys and
// accept missing ones, so that fields may be added.
#pragma once

#include "common/base/result.h"
#include "common/model/stack_snapshot.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kStacksSchema = "xpurun.stacks/2";
// Every frame as an object in its thread: the form of older versions, and of the output for scripts.
inline constexpr std::string_view kFullStacksSchema = "xpurun.stacks/1";

// A process in the form of its file.
struct CompactStacks {
  ProcessStacks process;                       // its threads have no frames
  std::vector<Frame> frames;                   // distinct, if the file was written by compact()
  std::vector<std::vector<uint32_t>> threads;  // per thread: indices into `frames`, innermost first
};

CompactStacks compact(ProcessStacks p);
// With the frames of all threads, or only of the threads in `wanted`.
ProcessStacks expand(const CompactStacks& s);
ProcessStacks expand(const CompactStacks& s, const std::vector<bool>& wanted);

nlohmann::ordered_json to_json(const CompactStacks& s);
// In the full form.
nlohmann::ordered_json to_json(const ProcessStacks& p);
// The content of a stacks file.
std::string stacks_file(ProcessStacks p);

// Both functions read both forms.
base::Result<CompactStacks> compact_stacks_from_json(const nlohmann::json& j);
base::Result<ProcessStacks> process_stacks_from_json(const nlohmann::json& j);
base::Result<CompactStacks> load_compact_stacks(const std::string& path);
base::Result<ProcessStacks> load_process_stacks(const std::string& path);

}  // namespace xpurun::model
