// Membership: which nodes of the job are known, which live, and which is elected: the living node with the
// smallest node rank that has heard the others. Pure: the caller passes the times. A node joins with its
// first state. A state is dropped as a stranger's if its mark is of another job, or if its node name, its
// node rank or its ranks belong to another living connection. The next helper of the same supervisor is not a
// stranger.
#pragma once

#include "common/base/clock.h"
#include "launcher/nodes/agent/protocol/clock_offset.h"
#include "launcher/nodes/agent/protocol/wire.h"
#include "launcher/nodes/node_messages.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace xpurun::nodes {

struct Self {
  std::string node;
  uint64_t instance = 0;
  int node_rank = 0;
  int nodes = 0;       // of the job; 0: not known
  int world_size = 0;  // 0: not known
  launcher::JobMark mark;
};

struct Member {
  std::string node;
  uint64_t instance = 0;
  NodeState state;
  base::MonoNs joined = 0;
  base::MonoNs last_word = 0;
  base::MonoNs claimed = 0;  // when its present claim was first heard
  bool ended = false;        // its last message has arrived
  ClockOffset clock;
  base::MonoNs next_ping = 0;
};

class Membership {
 public:
  Membership(Self self, base::MonoNs now);

  // The connection is there, or lost. Only a connected node hears the others.
  void connected(base::MonoNs now);
  void disconnected();
  bool is_connected() const { return connected_; }

  // Whether the states of all nodes should be subscribed to. Changes only in update().
  bool hears_all() const { return hears_all_; }
  // Call often. Returns whether hears_all() has changed.
  bool update(base::MonoNs now);

  // This node's own state; `eligible` is filled in.
  void set_own(NodeState state, base::MonoNs now);
  const Member& own() const { return own_; }

  // False: the state is a stranger's.
  bool take(const std::string& node, uint64_t instance, NodeState state, base::MonoNs now);
  // The living member that sends under this name; null for a stranger. Counts as a sign of life.
  Member* hear(const std::string& node, uint64_t instance, base::MonoNs now);

  bool alive(const Member& m, base::MonoNs now) const;
  // Null: no node is elected yet, or a node of a smaller rank has just joined and cannot be elected yet.
  // Meanwhile no request is begun, because that node would begin it again.
  const Member* elected(base::MonoNs now) const;
  bool is_elected(base::MonoNs now) const { return elected(now) == &own_; }

  const Member* find(const std::string& node) const;
  // Others, by name; the dead too.
  std::map<std::string, Member>& others() { return others_; }
  const std::map<std::string, Member>& others() const { return others_; }
  int living(base::MonoNs now) const;  // this node included
  // Whether a living node, this one not counted, has ranks that are neither at their end nor being ended.
  bool others_train(base::MonoNs now) const;

  // By node rank, this node included.
  std::vector<launcher::NodeInfo> infos(base::MonoNs now) const;

 private:
  bool believable(const std::string& node, const NodeState& state, base::MonoNs now) const;
  bool eligible(base::MonoNs now) const;
  bool needs_all(base::MonoNs now) const;
  launcher::NodeInfo info(const Member& m, const Member* chosen, base::MonoNs now) const;

  Self self_;
  Member own_;
  std::map<std::string, Member> others_;
  bool connected_ = false;
  bool hears_all_ = false;
  base::MonoNs heard_since_ = 0;  // since hears_all_, or since the connection
  base::MonoNs elected_seen_ = 0;
};

}  // namespace xpurun::nodes
