#include "launcher/nodes/agent/protocol/membership.h"

#include "launcher/nodes/node_limits.h"

#include <algorithm>
#include <tuple>

namespace xpurun::nodes {

using namespace launcher;
using base::MonoNs;
using base::s_to_ns;

Membership::Membership(Self self, MonoNs now) : self_(std::move(self)), elected_seen_(now) {
  own_.node = self_.node;
  own_.instance = self_.instance;
  own_.state.node_rank = self_.node_rank;
  own_.last_word = now;
  hears_all_ = needs_all(now);
}

void Membership::connected(MonoNs now) {
  connected_ = true;
  heard_since_ = now;
  elected_seen_ = now;
  // The others only seemed silent, because this node was disconnected.
  for (auto& [name, member] : others_) {
    member.last_word = std::max(member.last_word, now - s_to_ns(kDeadAfterS - kListenS));
  }
}

void Membership::disconnected() {
  connected_ = false;
}

bool Membership::needs_all(MonoNs now) const {
  return self_.node_rank < kWatchers || now - elected_seen_ >= s_to_ns(kDeadAfterS) ||
         (connected_ && elected(now) == &own_);
}

bool Membership::update(MonoNs now) {
  if (const Member* m = elected(now); m != nullptr && m != &own_) {
    elected_seen_ = std::max(elected_seen_, m->last_word);
  }
  own_.state.eligible = eligible(now);
  const bool needs = needs_all(now);
  if (needs == hears_all_) {
    return false;
  }
  hears_all_ = needs;
  heard_since_ = now;
  if (!hears_all_) {
    // The states of the others are no longer received, so nothing is known about them.
    const Member* chosen = elected(now);
    std::erase_if(others_, [chosen](const auto& m) { return &m.second != chosen; });
  }
  own_.state.eligible = eligible(now);
  return true;
}

void Membership::set_own(NodeState state, MonoNs now) {
  own_.state = std::move(state);
  own_.state.node_rank = self_.node_rank;
  own_.state.eligible = eligible(now);
}

bool Membership::eligible(MonoNs now) const {
  if (!connected_ || !hears_all_) {
    return false;
  }
  const auto known = static_cast<int>(others_.size()) + 1;
  return now - heard_since_ >= s_to_ns(kListenS) || (self_.nodes > 0 && known == self_.nodes);
}

bool Membership::believable(const std::string& node, const NodeState& state, MonoNs now) const {
  const bool rank_exists = self_.nodes == 0 || state.node_rank < self_.nodes;
  const base::Rank last = self_.world_size > 0 ? self_.world_size : kMostRanksOfJob;
  const auto exists = [last](base::Rank r) { return r < last; };
  if (!may_be_one_job(self_.mark, state.mark) || !rank_exists || state.node_rank == self_.node_rank ||
      !std::all_of(state.expected.begin(), state.expected.end(), exists) ||
      !std::all_of(state.state.ranks.begin(), state.state.ranks.end(),
                   [&](const RankOnNode& r) { return exists(r.rank); })) {
    return false;
  }
  const auto ranks = model::RankSet::of(state.expected);
  const auto collides = [&](const Member& m) {
    return m.state.node_rank == state.node_rank ||
           std::any_of(m.state.expected.begin(), m.state.expected.end(),
                       [&](base::Rank r) { return ranks.contains(r); });
  };
  return !collides(own_) && std::none_of(others_.begin(), others_.end(), [&](const auto& m) {
    return m.first != node && alive(m.second, now) && collides(m.second);
  });
}

namespace {

// The helper of a living supervisor was killed: its successor need not wait until the old helper counts as
// dead.
bool follows(uint64_t instance, uint64_t before) {
  return instance >> 32 == before >> 32 && instance > before;
}

}  // namespace

bool Membership::take(const std::string& node, uint64_t instance, NodeState state, MonoNs now) {
  if (node == self_.node || (others_.count(node) == 0 && others_.size() >= kMostNodes)) {
    return false;
  }
  const auto found = others_.find(node);
  const bool same = found != others_.end() && found->second.instance == instance;
  if (found != others_.end() && !same && alive(found->second, now) &&
      !follows(instance, found->second.instance)) {
    return false;
  }
  // A member's name and ranks do not change, so the full check is not repeated every two seconds.
  const bool changed = !same || found->second.state.node_rank != state.node_rank ||
                       found->second.state.expected != state.expected;
  if (changed && !believable(node, state, now)) {
    return false;
  }
  Member& m = others_[node];
  if (!same) {
    m = Member();
    m.joined = now;
  }
  if (state.claim.present() && (m.claimed == 0 || m.state.claim.stall != state.claim.stall)) {
    m.claimed = now;
  }
  m.node = node;
  m.instance = instance;
  m.state = std::move(state);
  m.last_word = now;
  m.ended = m.state.state.phase == NodePhase::ended;
  return true;
}

Member* Membership::hear(const std::string& node, uint64_t instance, MonoNs now) {
  const auto found = others_.find(node);
  if (found == others_.end() || found->second.instance != instance || found->second.ended) {
    return nullptr;
  }
  found->second.last_word = now;
  return &found->second;
}

bool Membership::alive(const Member& m, MonoNs now) const {
  return &m == &own_ || (!m.ended && now - m.last_word < s_to_ns(kDeadAfterS));
}

const Member* Membership::elected(MonoNs now) const {
  const Member* out = own_.state.eligible ? &own_ : nullptr;
  int newcomer = kMostNodes;  // smallest node rank among the nodes that can be elected soon
  for (const auto& [name, m] : others_) {
    const int rank = m.state.node_rank;
    if (!alive(m, now)) {
      continue;
    }
    if (m.state.eligible && (out == nullptr || rank < out->state.node_rank)) {
      out = &m;
    } else if (!m.state.eligible && now - m.joined < s_to_ns(2 * kListenS)) {
      newcomer = std::min(newcomer, rank);
    }
  }
  return out != nullptr && newcomer < out->state.node_rank ? nullptr : out;
}

const Member* Membership::find(const std::string& node) const {
  if (node == self_.node) {
    return &own_;
  }
  const auto found = others_.find(node);
  return found == others_.end() ? nullptr : &found->second;
}

int Membership::living(MonoNs now) const {
  return 1 + static_cast<int>(std::count_if(others_.begin(), others_.end(),
                                            [&](const auto& m) { return alive(m.second, now); }));
}

bool Membership::others_train(MonoNs now) const {
  return std::any_of(others_.begin(), others_.end(), [&](const auto& m) {
    return alive(m.second, now) && m.second.state.state.phase < NodePhase::ending;
  });
}

namespace {

// Without the numbers of calls: the supervisor gets these with the dumps, and for a thousand nodes they would
// be most of the list.
std::vector<RankOnNode> reported_ranks(const StateMessage& s) {
  std::vector<RankOnNode> out;
  out.reserve(s.ranks.size());
  for (const RankOnNode& r : s.ranks) {
    out.push_back(
        {.rank = r.rank, .state = r.state, .alive = r.alive, .still_s = r.still_s, .where = r.where});
  }
  return out;
}

}  // namespace

NodeInfo Membership::info(const Member& m, const Member* chosen, MonoNs now) const {
  const StateMessage& s = m.state.state;
  const bool own = &m == &own_;
  return {.node = m.node,
          .node_rank = m.state.node_rank,
          .host = m.state.host,
          .phase = s.phase,
          .elapsed_s = s.elapsed_s,
          .still_s = s.still_s,
          .seen_s = own ? 0 : base::ns_to_s(now - m.last_word),
          .alive = alive(m, now),
          .offset_ns = m.clock.offset_ns(),
          .uncertainty_ns = own ? 0 : m.clock.uncertainty_ns(),
          .elected = chosen == &m,
          .exit_status = s.exit_status,
          .expected = m.state.expected,
          .ranks = reported_ranks(s)};
}

std::vector<NodeInfo> Membership::infos(MonoNs now) const {
  const Member* chosen = elected(now);
  std::vector<NodeInfo> out = {info(own_, chosen, now)};
  for (const auto& [name, m] : others_) {
    out.push_back(info(m, chosen, now));
  }
  std::sort(out.begin(), out.end(), [](const NodeInfo& a, const NodeInfo& b) {
    return std::tie(a.node_rank, a.node) < std::tie(b.node_rank, b.node);
  });
  return out;
}

}  // namespace xpurun::nodes
