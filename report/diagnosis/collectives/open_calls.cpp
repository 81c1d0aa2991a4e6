#include "report/diagnosis/collectives/open_calls.h"

#include "report/diagnosis/collectives/call_difference.h"
#include "report/diagnosis/collectives/call_group.h"
#include "report/diagnosis/collectives/wait_graph.h"

namespace xpurun::report {

using model::CallSource;
using model::CallStage;

std::map<base::Rank, model::RankSet> ranks_of_open_calls(const model::CollectiveFacts& facts) {
  std::map<base::Rank, model::RankSet> out;
  for (const CallSource source : {CallSource::torch, CallSource::nccl, CallSource::mpi}) {
    for (const CallGroup& group : line_up(facts, source)) {
      // A member with an unknown rank may be the one that the others wait for.
      const bool known = group.any != nullptr && group.ranks.size() >= static_cast<size_t>(group.any->size);
      for (const Member& m : group.members) {
        if (known && open_call(m) > 0) {
          out[m.rank].insert(group.ranks);
        }
        for (size_t i = 0; m.comm != nullptr && i < m.comm->point_to_point.size(); ++i) {
          const model::CollectiveCall& call = m.comm->point_to_point[i];
          const base::Rank peer = group.global_rank(call.peer);
          if (call.stage == CallStage::called && peer >= 0) {
            out[m.rank].insert({m.rank, peer});
          } else if (call.stage == CallStage::called && call.takes_any_peer()) {
            out[m.rank].insert(group.ranks);
          }
        }
      }
    }
  }
  return out;
}

namespace {

bool stands(const Member& m, uint64_t sequence) {
  const model::CollectiveCall* call = call_at(m, sequence);
  return call != nullptr && call->stage == CallStage::called && is_open(m, sequence);
}

}  // namespace

model::RankSet proved_to_stand(const model::CollectiveFacts& facts, const model::RankSet& gone) {
  const std::vector<CallGroup> groups = line_up(facts, CallSource::torch);
  model::RankSet out = standing_for_ever(facts, groups, gone);
  for (const CallGroup& group : groups) {
    const uint64_t newest = group.most_called();
    const Member* first = nullptr;
    model::RankSet standing;
    bool differ = false;
    for (const Member& m : group.members) {
      if (m.comm == nullptr || !stands(m, newest)) {
        continue;
      }
      standing.insert(m.rank);
      first = first == nullptr ? &m : first;
      differ = differ || difference(*call_at(*first, newest), *call_at(m, newest)) != Difference::none;
    }
    if (differ) {
      out.insert(standing);
    }
  }
  return out;
}

}  // namespace xpurun::report
