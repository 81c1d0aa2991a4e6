#include "launcher/supervise/nodes/job_join.h"

#include "launcher/nodes/joining.h"
#include "launcher/options/settings.h"
#include "launcher/processes/identity.h"

#include <utility>

namespace xpurun::launcher {

std::optional<base::Result<StartMessage>> JobJoin::look() {
  if (tried_) {
    return std::nullopt;
  }
  const auto living = table_.living_ranks();
  // The identity from the source with the highest precedence, as for the ranks themselves.
  const TrackedProcess* best = nullptr;
  for (const TrackedProcess* p : living) {
    const bool better = p->identity && (best == nullptr || p->identity->kind < best->identity->kind);
    // A launcher has the variables of its node, not of a rank.
    best = better && !starts_ranks(p->record.cmdline) ? p : best;
  }
  identity_ = job_identity({.own = process_environment(),
                            .rank = best != nullptr ? table_.environment_of(best->record.pid) : Environment(),
                            .nodes = options_.nodes.nodes,
                            .node_rank = options_.nodes.node_rank,
                            .name = options_.name});
  if (!identity_.several_nodes() || !options_.nodes.wanted()) {
    return std::nullopt;
  }
  tried_ = true;
  if (const std::string missing = identity_.missing(); !missing.empty()) {
    return base::fail(missing);
  }
  OwnNode own{.host = host_, .directory = directory_};
  for (const TrackedProcess* p : living) {
    own.living.push_back(p->record.rank);
  }
  return start_message(options_, identity_, own);
}

std::string JobJoin::hint() {
  const bool wanted = identity_.several_nodes() && !options_.nodes.wanted();
  return wanted && !std::exchange(hint_given_, true) ? how_to_join(identity_) : "";
}

}  // namespace xpurun::launcher
