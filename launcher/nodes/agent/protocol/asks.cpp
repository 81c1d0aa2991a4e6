#include "launcher/nodes/agent/protocol/asks.h"

#include "launcher/nodes/node_limits.h"

namespace xpurun::nodes {

using namespace launcher;

namespace {

constexpr int kNoAnswer = 504;

}  // namespace

uint64_t Asks::start(uint64_t id, std::set<std::string> nodes, base::MonoNs deadline) {
  if (pending_.size() >= kMostPendingRequests) {
    return 0;
  }
  pending_[next_] = {.id = id, .nodes = std::move(nodes), .deadline = deadline};
  return next_++;
}

std::vector<AnswersMessage> Asks::answered(const std::string& node, uint64_t number, int status,
                                           std::string body) {
  const auto found = pending_.find(number);
  if (found == pending_.end() || found->second.nodes.erase(node) == 0) {
    return {};
  }
  const bool last = found->second.nodes.empty();
  const uint64_t id = found->second.id;
  if (last) {
    pending_.erase(found);
  }
  return {{.id = id, .node = node, .status = status, .body = std::move(body), .last = last}};
}

std::vector<AnswersMessage> Asks::expired(base::MonoNs now, const std::set<std::string>& living) {
  std::vector<AnswersMessage> out;
  for (auto it = pending_.begin(); it != pending_.end();) {
    Pending& pending = it->second;
    const bool late = now >= pending.deadline;
    const size_t dropped = std::erase_if(pending.nodes, [&](const std::string& node) {
      const bool drop = late || !living.contains(node);
      if (drop) {
        out.push_back({.id = pending.id, .node = node, .status = kNoAnswer});
      }
      return drop;
    });
    if (dropped > 0 && pending.nodes.empty()) {
      out.back().last = true;
      it = pending_.erase(it);
    } else {
      ++it;
    }
  }
  return out;
}

}  // namespace xpurun::nodes
