// The field lists of the parts that messages between supervisor and helper, and between helpers, have in
// common. For .cpp files only.
#pragma once

#include "common/model/json_visitors.h"
#include "launcher/nodes/node_messages.h"

namespace xpurun::launcher {

using model::Self;
using model::WhenEmpty;

template <typename V, Self<RankOnNode> R>
void fields(V& visit, R& r) {
  visit("rank", r.rank);
  visit("state", r.state);
  visit("alive", r.alive);
  visit("still_s", r.still_s);
  visit("where", r.where, WhenEmpty::omit);
  visit("sequence", r.sequence, WhenEmpty::omit);
}

template <typename V, Self<JobMark> M>
void fields(V& visit, M& m) {
  visit("run_id", m.run_id, WhenEmpty::omit);
  visit("scheduler", m.scheduler, WhenEmpty::omit);
  visit("address", m.address, WhenEmpty::omit);
  visit("port", m.port, WhenEmpty::omit);
  visit("world_size", m.world_size, WhenEmpty::omit);
}

template <typename V, Self<StateMessage> S>
void fields(V& visit, S& s) {
  visit("phase", s.phase);
  visit("elapsed_s", s.elapsed_s);
  visit("still_s", s.still_s);
  visit.optional("exit_status", s.exit_status);
  visit("ranks", s.ranks);
}

template <typename V, Self<VerdictMessage> M>
void fields(V& visit, M& m) {
  visit("request", m.request);
  visit("node", m.node);
  visit("directory", m.directory);
  visit("shared", m.shared);
  visit("verdict", m.verdict);
}

template <typename V, Self<ActMessage> M>
void fields(V& visit, M& m) {
  visit("action", m.action);
  visit.optional("exit_status", m.exit_status);
  visit("reason", m.reason);
}

}  // namespace xpurun::launcher
