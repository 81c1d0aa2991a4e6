#include "launcher/nodes/node_state.h"

#include "common/model/frame_text.h"
#include "launcher/nodes/node_limits.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

namespace {

// Enough for all groups of a rank in today's training; states must stay small.
constexpr size_t kMostReported = 64;

std::string place_of(const model::RankObservation& o) {
  const model::CodeLocation& at = o.user_place;
  return model::line_label(at.function, at.file, at.line).substr(0, kLongestText);
}

std::map<std::string, uint64_t> cut(const std::map<std::string, uint64_t>& calls) {
  std::map<std::string, uint64_t> out;
  for (const auto& [id, sequence] : calls) {
    if (out.size() < kMostReported && id.size() <= kLongestName) {
      out.emplace(id, sequence);
    }
  }
  return out;
}

}  // namespace

NewestCalls newest_calls(const model::CollectiveFacts& facts) {
  NewestCalls out;
  for (const model::RankCollectives& r : facts.ranks) {
    for (const model::Communicator& c : r.communicators) {
      if (c.comparable && c.called > 0) {
        out[r.rank][c.id] = c.called;
      }
    }
  }
  return out;
}

std::vector<RankOnNode> ranks_on_node(const std::vector<model::RankObservation>& ranks,
                                      const NewestCalls& calls) {
  std::vector<RankOnNode> out;
  for (const model::RankObservation& o : ranks) {
    if (out.size() == kMostRanksOfNode) {
      break;
    }
    const auto called = calls.find(o.rank);
    out.push_back(
        {.rank = o.rank,
         .state = o.state,
         .alive = o.alive,
         .still_s = o.still_s,
         .where = place_of(o),
         .sequence = called == calls.end() ? std::map<std::string, uint64_t>() : cut(called->second)});
  }
  return out;
}

model::Nodes nodes_file(const GatheredMessage& m, const std::string& node, const std::string& elected) {
  model::Nodes out{.request = m.request, .this_node = node, .elected = elected};
  for (const GatheredNode& n : m.nodes) {
    model::NodeEntry entry{.node = n.node,
                           .host = n.host,
                           .node_rank = n.node_rank,
                           .status = n.status,
                           .reason = n.reason,
                           .offset_ns = n.offset_ns,
                           .uncertainty_ns = n.uncertainty_ns,
                           .directory = n.directory,
                           .dump = n.dump};
    entry.ranks = model::RankSet::of(n.ranks);
    out.nodes.push_back(std::move(entry));
  }
  return out;
}

double longest_still_s(const std::vector<model::RankObservation>& ranks) {
  double out = 0;
  for (const model::RankObservation& o : ranks) {
    out = o.alive ? std::max(out, o.still_s) : out;
  }
  return out;
}

}  // namespace xpurun::launcher
