// Asks: control requests from this node's supervisor that other nodes have not answered yet. Pure.
#pragma once

#include "common/base/clock.h"
#include "launcher/nodes/node_messages.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace xpurun::nodes {

class Asks {
 public:
  // The number under which the nodes are asked; 0: too many requests are unanswered.
  uint64_t start(uint64_t id, std::set<std::string> nodes, base::MonoNs deadline);
  // Nothing if no request waits for this answer.
  std::vector<launcher::AnswersMessage> answered(const std::string& node, uint64_t number, int status,
                                                 std::string body);
  // An answer 504 for each node that has not answered in time, or has died before its answer.
  std::vector<launcher::AnswersMessage> expired(base::MonoNs now, const std::set<std::string>& living);

  bool empty() const { return pending_.empty(); }

 private:
  struct Pending {
    uint64_t id = 0;
    std::set<std::string> nodes;  // still to answer
    base::MonoNs deadline = 0;
  };

  std::map<uint64_t, Pending> pending_;
  uint64_t next_ = 1;
};

}  // namespace xpurun::nodes
