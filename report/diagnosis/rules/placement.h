// Mistakes in where the ranks may run, and with how many threads.
#pragma once

#include "common/model/evidence/machine.h"
#include "common/model/rank_set.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

struct Placement {
  std::string_view id;  // of the finding
  model::RankSet ranks;
  std::string title;  // "ranks 0-1 are pinned to one CPU, number 0"
  std::vector<std::string> evidence;
  std::string next;
  std::string_view command;
};

std::vector<Placement> placements(const model::MachineHistory& machine);

// Those that kept their ranks from running for much of the time: ready threads had no CPU.
std::vector<Placement> harmful_placements(const model::MachineHistory& machine);

}  // namespace xpurun::report
