// Which rank waits for which: through collectives that a rank has entered and others have not, and through
// messages without a counterpart. Pure.
#pragma once

#include "report/diagnosis/collectives/call_finding.h"
#include "report/diagnosis/collectives/call_group.h"

#include <optional>
#include <vector>

namespace xpurun::report {

// A rank stands in a call until all of `on` have done their part.
struct CallWait {
  base::Rank rank = base::kNoRank;
  model::RankSet on;
  const CallGroup* group = nullptr;
  uint64_t sequence = 0;                           // of the collective
  const model::CollectiveCall* message = nullptr;  // a send or receive instead
};

struct WaitGraph {
  std::vector<CallWait> waits;
  // Ranks in a call in which no rank is missing, or in which only ranks of other nodes can be.
  model::RankSet held;
};

WaitGraph wait_graph(const std::vector<CallGroup>& groups);

// Sends and receives that met, but with different sizes or types.
std::optional<CallFinding> find_message_difference(const std::vector<CallGroup>& groups);
// Ranks that others wait for and that wait in no call themselves.
std::optional<CallFinding> find_absent(const WaitGraph& graph);
// Ranks that wait for each other in a circle.
std::optional<CallFinding> find_circle(const WaitGraph& graph);

}  // namespace xpurun::report
