#include "launcher/supervise/nodes/state_publisher.h"

#include "launcher/nodes/node_limits.h"

namespace xpurun::launcher {

// The helper itself sends "ended" as its last message: until then this node takes part in rounds and may
// judge.
NodePhase StatePublisher::phase() const {
  if (parts_.job.is_ending()) {
    return NodePhase::ending;
  }
  return stalled_ ? NodePhase::stalled : NodePhase::running;
}

void StatePublisher::report() {
  timer_.stop();
  if (!hooks_.heard()) {
    return;
  }
  std::vector<model::RankObservation> ranks = parts_.watcher.living_observations();
  const auto gone = parts_.watcher.last_observations();
  ranks.insert(ranks.end(), gone.begin(), gone.end());
  hooks_.send({.phase = phase(),
               .elapsed_s = parts_.journal.elapsed_s(),
               .still_s = longest_still_s(ranks),
               .exit_status = parts_.journal.manifest().exit_status,
               .ranks = ranks_on_node(ranks, hooks_.calls())});
  timer_.after(kStateIntervalS, [this] { report(); });
}

}  // namespace xpurun::launcher
