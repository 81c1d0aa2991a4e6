// Compares the ledgers of a node's ranks: which rank has not called a collective that others have called,
// called a different one, has not launched it, or has not finished it on the GPU. Pure.
#pragma once

#include "launcher/collect/rank_timing.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

struct LedgerFinding {
  // "not_called": `ranks` have not called collective `sequence`, which others have.
  // "mismatch":   `ranks` called a different operation than most ranks under that number.
  // "not_launched": called by all ranks of this node, but `ranks` have not launched it.
  // "not_done":   launched by all ranks of this node, but not done on `ranks`.
  std::string kind;
  std::string communicator;  // its name, else its identity
  int size = 0;              // number of ranks of the communicator, on all nodes
  uint64_t sequence = 0;
  std::string operation;  // "AllReduce of 4096 bf16", as far as known
  std::vector<base::Rank> ranks;
  std::string sentence;
};

// At most one finding per communicator with unfinished work; mismatches first.
std::vector<LedgerFinding> ledger_findings(const std::vector<RankTiming>& ranks);

}  // namespace xpurun::launcher
