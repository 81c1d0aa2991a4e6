// The state that a node publishes, and the states of the others that it writes to files: pure functions over
// the messages.
#pragma once

#include "common/model/collectives.h"
#include "common/model/dump_manifest.h"
#include "common/model/job/nodes.h"
#include "launcher/nodes/node_messages.h"

#include <map>
#include <string>
#include <vector>

namespace xpurun::launcher {

// Newest sequence numbers called: by rank, then by communicator id.
using NewestCalls = std::map<base::Rank, std::map<std::string, uint64_t>>;

NewestCalls newest_calls(const model::CollectiveFacts& facts);

// `ranks`: living and dead. Long texts and lists are cut to the limits of node_limits.h.
std::vector<RankOnNode> ranks_on_node(const std::vector<model::RankObservation>& ranks,
                                      const NewestCalls& calls);

// Of the living rank that has been still longest; 0 without one.
double longest_still_s(const std::vector<model::RankObservation>& ranks);

// nodes.json of this node, `node`, after a dump of all nodes.
model::Nodes nodes_file(const GatheredMessage& message, const std::string& node, const std::string& elected);

}  // namespace xpurun::launcher
