#include "launcher/supervise/handlers/recorded_calls.h"

#include "common/model/documents/document_text.h"
#include "launcher/collect/calls/call_lanes.h"

#include <vector>

namespace xpurun::launcher {

model::CollectiveFacts RecordedCalls::all() const {
  model::CollectiveFacts calls = sources_.nccl();
  sources_.add_torch(calls);
  sources_.add_mpi(calls);
  std::erase_if(calls.ranks, [this](const auto& rank) { return parts_.table.replaced(rank.pid); });
  for (model::RankCollectives& rank : calls.ranks) {
    arrange_calls(rank);
    rank.steps = sources_.steps(rank.rank);
  }
  return calls;
}

model::CollectiveFacts RecordedCalls::save(const std::string& path) const {
  model::CollectiveFacts calls = all();
  if (!calls.empty()) {
    parts_.storage.replace(path, model::document_text(calls, 1));
  }
  return calls;
}

}  // namespace xpurun::launcher
