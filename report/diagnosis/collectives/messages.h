// Unfinished sends and receives, each with its counterpart. Pure.
#pragma once

#include "report/diagnosis/collectives/call_group.h"

#include <vector>

namespace xpurun::report {

enum class Counterpart {
  unknown,  // the peer's calls are unknown
  missing,  // the peer has not called
  equal,
  differs,  // in size, type or tag
};

struct Message {
  base::Rank rank = base::kNoRank;
  base::Rank peer = base::kNoRank;  // global; kNoRank: any
  model::RankSet peers;             // the peer, or all ranks that may send
  const model::CollectiveCall* call = nullptr;
  const model::CollectiveCall* other = nullptr;  // the counterpart
  Counterpart counterpart = Counterpart::unknown;
};

// One is a send and the other is a recv.
bool is_other_end(const model::CollectiveCall& a, const model::CollectiveCall& b);

// Ordered by member, then by call.
std::vector<Message> messages_of(const CallGroup& group);

}  // namespace xpurun::report
