// Outlet: the actions of a node's logic on the world. The program provides sockets and clocks, a test a
// simulated network.
#pragma once

#include "common/base/clock.h"
#include "common/base/result.h"
#include "launcher/nodes/agent/protocol/archive.h"
#include "launcher/nodes/agent/protocol/job_archive.h"
#include "launcher/nodes/agent/protocol/wire.h"
#include "launcher/nodes/node_messages.h"

#include <functional>
#include <string>

namespace xpurun::nodes {

struct Outlet {
  std::function<base::MonoNs()> now;
  std::function<int64_t()> wall_ns;
  std::function<void(launcher::FromHelper)> to_supervisor;
  std::function<void(const std::string& node, Body)> to_node;
  std::function<void(Body)> to_all;
  // This node's state, for the nodes that receive all states; if this node is elected, for all nodes.
  std::function<void(const NodeState&, bool elected)> publish_state;
  // Done in the background; `done` is called later, by the thread of the logic.
  std::function<void(ArchiveContent, std::function<void(std::string archive)> done)> pack;
  std::function<void(std::string directory, std::string archive, std::function<void(base::Status)> done)>
      unpack;
  // The same for the archives of all nodes. An empty archive means that packing failed.
  std::function<void(JobContent, std::function<void(std::string archive)> done)> pack_job;
  std::function<void(std::string judge, std::string archive,
                     std::function<void(base::Result<launcher::GatheredMessage>)> done)>
      unpack_job;
};

}  // namespace xpurun::nodes
