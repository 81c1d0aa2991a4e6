#include "launcher/nodes/agent/protocol/asks.h"

#include "launcher/nodes/node_limits.h"

namespace xpurun::nodes {

using namespace launcher;

namespace {

constexpr int kNoAnswer = 504;

}  // namespace

uint64_t Asks::start(uint64_t id, std::set<std::string> nodes, base::MonoNs now) {
  if (pending_.size() >= kMostPendingRequests) {
    return 0;
  }
  pending_[next_] = {.id = id, .nodes = std::move(nodes), .deadline = now + base::s_to_ns(kAnswerTimeoutS)};
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

std::vector<AnswersMessage> Asks::expired(base::MonoNs now) {
  std::vector<AnswersMessage> out;
  for (auto it = pending_.begin(); it != pending_.end();) {
    if (now < it->second.deadline) {
      ++it;
      continue;
    }
    for (const std::string& node : it->second.nodes) {
      out.push_back({.id = it->second.id, .node = node, .status = kNoAnswer});
    }
    out.back().last = true;
    it = pending_.erase(it);
  }
  return out;
}

}  // namespace xpurun::nodes
