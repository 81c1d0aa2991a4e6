// The last lines that the process behind a verdict wrote to standard error.
#pragma once

#include "common/model/evidence/device_assert.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "common/model/verdict.h"

#include <optional>
#include <string_view>

namespace xpurun::report {

inline constexpr size_t kTailLines = 20;

struct TailOfRank {
  base::Rank rank = base::kNoRank;
  model::LogTail log;
  std::optional<model::DeviceAssert> failed_assert;  // of a kernel, as the rank's standard error tells it
};

// Empty for a verdict that is about no death. `nodes`: the run directory of each node, this one first; empty
// where there is none.
TailOfRank read_log_tail(const std::vector<std::string>& nodes, const model::RunManifest& run,
                         const model::Verdict& verdict);

// The lines up to the last one of the exception's traceback; empty if the text does not have that line.
std::vector<std::string> lines_up_to(std::string_view text, const model::VerdictException& exception,
                                     size_t most);

// The last lines of a text, without xpurun's own lines and without lines that a progress bar has overwritten.
std::vector<std::string> last_lines(std::string_view text, size_t most);

// Puts the tail into the verdict, and its end into the evidence if no other evidence says more.
void add_log_tail(model::Verdict& verdict, TailOfRank tail);

}  // namespace xpurun::report
