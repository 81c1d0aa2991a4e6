// The first message to the helper, from the options of the run and the identity of the node; and the hint for
// the user if the nodes are not joined. Pure.
#pragma once

#include "launcher/nodes/job_identity.h"
#include "launcher/nodes/node_messages.h"
#include "launcher/options/run_options.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

struct OwnNode {
  std::string host;
  std::string directory;           // absolute path of the run directory
  std::vector<base::Rank> living;  // ranks found so far
};

// From an order to dump to the verdict of the job; then each node judges alone.
double verdict_limit_s(const RunOptions& options);

StartMessage start_message(const RunOptions& options, const JobIdentity& identity, const OwnNode& own);

// One sentence for a job of several nodes without --nats.
std::string how_to_join(const JobIdentity& identity);

}  // namespace xpurun::launcher
