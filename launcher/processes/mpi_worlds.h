// MpiWorlds: the groups of processes with an MPI_COMM_WORLD of their own in one job: the one that the
// launcher has started, and one for each call of MPI_Comm_spawn. Their ranks all begin at 0; in the job,
// those of later worlds follow those of earlier ones. Open MPI.
#pragma once

#include "launcher/processes/identity.h"

#include <map>
#include <string>
#include <vector>

namespace xpurun::launcher {

struct MpiWorld {
  std::string name;    // the launcher's
  std::string parent;  // the world whose ranks have spawned this one; empty: the launcher has started it
  int base = 0;        // rank in the job of its rank 0
  int size = 0;
};

class MpiWorlds {
 public:
  // Enters the world of a process with this environment, and changes the identity to that in the job. Returns
  // the index of the world; -1 if the environment names none.
  int enter(const std::map<std::string, std::string>& environment, Identity& identity);
  const std::vector<MpiWorld>& all() const { return worlds_; }

 private:
  std::vector<MpiWorld> worlds_;
};

}  // namespace xpurun::launcher
