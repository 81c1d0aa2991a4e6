// The live status of a job, composed from the parts of the supervisor.
#pragma once

#include "common/model/collectives.h"
#include "launcher/journal/journal.h"
#include "launcher/nodes/node_messages.h"
#include "launcher/options/run_options.h"
#include "launcher/output/live_status.h"
#include "launcher/output/node_list.h"
#include "launcher/processes/process_table.h"
#include "launcher/speed/step_watch.h"
#include "launcher/timing/timing_service.h"
#include "launcher/watch/watcher.h"

#include <functional>

namespace xpurun::launcher {

struct LiveSources {
  const EventLoop& loop;
  const Journal& journal;
  const ProcessTable& table;
  const Watcher& watcher;
  TimingService& timing;
  const StepWatch& steps;
  std::function<model::CollectiveFacts()> calls;  // recorded until now, of the living ranks
  const model::RankSet& slow_ranks;               // that keep the others waiting
};

LiveStatus live_status(const LiveSources& sources);

// Position and timing of one rank; `timing` may be null.
LiveRank live_rank(const model::RankObservation& o, bool alive, const RankTiming* timing);

// The ranks of all nodes except `own`, as `nodes` report them, and the nodes that report nothing. `expected`:
// number of nodes of the job; 0: unknown.
LiveStatus status_of_others(const std::vector<NodeInfo>& nodes, const std::string& own, int expected);

std::vector<ListedNode> listed(const std::vector<NodeInfo>& nodes);

}  // namespace xpurun::launcher
