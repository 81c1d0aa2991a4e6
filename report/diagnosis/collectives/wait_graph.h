// Which rank waits for which: in collectives that some ranks have entered and others have not, and in
// messages without a counterpart. Pure.
#pragma once

#include "report/diagnosis/collectives/call_finding.h"
#include "report/diagnosis/collectives/call_group.h"
#include "report/diagnosis/collectives/departures.h"

#include <optional>
#include <vector>

namespace xpurun::report {

// The rank stays in its call until all ranks of `on` have done their part.
struct CallWait {
  base::Rank rank = base::kNoRank;
  model::RankSet on;
  const CallGroup* group = nullptr;
  uint64_t sequence = 0;                           // the collective's
  const model::CollectiveCall* message = nullptr;  // if the wait is a send, a receive, or for a lock
};

struct WaitGraph {
  std::vector<CallWait> waits;
  // Ranks in a call that misses no rank, or may miss only ranks of other nodes.
  model::RankSet held;
};

WaitGraph wait_graph(const std::vector<CallGroup>& groups);

// Ranks that can never go on: they stand in calls of the program that wait for each other in a circle, for a
// rank of `gone`, or for such a rank. Ranks with calls in several threads are left out, because another
// thread may make the call that is missing.
model::RankSet standing_for_ever(const model::CollectiveFacts& facts, const std::vector<CallGroup>& groups,
                                 const model::RankSet& gone);

// Matched sends and receives with different sizes or types.
std::optional<CallFinding> find_message_difference(const std::vector<CallGroup>& groups);
// Ranks that others wait for and that are in no call themselves.
std::optional<CallFinding> find_absent(const WaitGraph& graph);
// A rank whose first message with a peer keeps it from a collective that this peer and at least one other
// rank have entered: most ranks are where they should be.
std::optional<CallFinding> find_stray_message(const WaitGraph& graph);
// Ranks that wait for each other in a circle. Accuses those that have departed from their routine; else those
// that most ranks wait for in a collective, or whose part of a message is missing. A rank that waits only for
// accused ranks is none.
std::optional<CallFinding> find_circle(const WaitGraph& graph, const Departures& departures);

}  // namespace xpurun::report
