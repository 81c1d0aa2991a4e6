// What the ledgers of a node's ranks say together: who has not called a collective that others have, who
// called another one, who has called it but not handed it to the GPU, who waits for it there. Pure.
#pragma once

#include "launcher/collect/rank_timing.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

struct LedgerFinding {
  // "not_called": `ranks` have not called collective `sequence`, which others have.
  // "mismatch":   `ranks` called something else under that number than most.
  // "not_launched": called by all that we see, but these have not handed it to the GPU.
  // "not_done":   handed to the GPU by all that we see and finished by none or some; `ranks` have not
  // finished.
  std::string kind;
  std::string communicator;  // its name, else its identity
  int size = 0;              // ranks that the communicator has, on all nodes
  uint64_t sequence = 0;
  std::string operation;  // "AllReduce of 4096 bf16", as far as it is known
  std::vector<base::Rank> ranks;
  std::string sentence;
};

// One finding at most for each communicator that is not at rest; those with missing ranks first.
std::vector<LedgerFinding> ledger_findings(const std::vector<RankTiming>& ranks);

}  // namespace xpurun::launcher
