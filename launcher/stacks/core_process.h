// The processes of core files, and their ranks.
#pragma once

#include "common/model/stack_snapshot.h"

#include <map>
#include <string>
#include <vector>

namespace xpurun::launcher {

struct CoreProcess {
  model::ProcessStacks stacks;
  base::Pid parent = 0;
  std::map<std::string, std::string> environment;  // variables with kept values
};

// Sets host, rank and role of each process from its environment. A Python process with the environment of a
// rank is the rank, unless its parent is among the processes and is that rank: then it is a worker. Where
// none of the processes with a rank is in Python, the outermost one that is no shell is the rank.
void identify(std::vector<CoreProcess>& processes);

}  // namespace xpurun::launcher
