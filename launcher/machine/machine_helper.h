// The helper that reads the host's counters: xpurun itself in another role, because a question to a file
// system or a device that is dead may never return. The supervisor writes one line with the ranks for each
// reading; the helper answers with one line (model::MachineReading). In between, the helper samples every
// two seconds what the ranks wait in and whether they get CPUs, and says unasked who has their memory once
// there is little of it (model::MemoryUsers).
#pragma once

#include "launcher/machine/places.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

// First word of the helper's command line. Not an option of xpurun.
inline constexpr std::string_view kMachineRole = "--watch-machine";

// `run_dir`: absolute.
std::vector<std::string> machine_words(const std::string& run_dir);

// "0:0:4711 1:1:4712\n": rank, local rank and pid.
std::string ranks_line(const std::vector<WatchedRank>& ranks);
// Words that are no rank are left out.
std::vector<WatchedRank> ranks_from(std::string_view line);

// Does not return.
[[noreturn]] void run_machine_helper(const std::vector<std::string>& words);

}  // namespace xpurun::launcher
