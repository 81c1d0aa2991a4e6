// Calls: the recorded calls of a synthetic job, rank by rank in the order in which the program made them.
#pragma once

#include "common/model/collectives.h"

#include <string>
#include <vector>

namespace xpurun::report::testing {

struct Group {
  std::string name = "default";
  std::vector<base::Rank> members;
  model::CallSource source = model::CallSource::torch;
};

model::CollectiveCall all_reduce(uint64_t count = 4096, int line = 33, std::string dtype = "float32");
model::CollectiveCall broadcast(int root = 0, int line = 31, uint64_t count = 4096);
model::CollectiveCall operation(std::string op, int line, uint64_t count = 0);
model::CollectiveCall send(int peer, uint64_t number, int line = 20, uint64_t count = 8);
model::CollectiveCall recv(int peer, uint64_t number, int line = 24, uint64_t count = 8);

class Calls {
 public:
  // All members have called `n` all_reduces of this group, all of which have ended.
  Calls& past(const Group& group, uint64_t n);
  // The rank enters a call and stays in it.
  Calls& enters(base::Rank rank, const Group& group, model::CollectiveCall call);
  // enters() for several ranks.
  Calls& enter(const std::vector<base::Rank>& ranks, const Group& group, const model::CollectiveCall& call);
  // The rank has entered a call and left it.
  Calls& finishes(base::Rank rank, const Group& group, model::CollectiveCall call);
  // The rank waits in a send or receive.
  Calls& message(base::Rank rank, const Group& group, model::CollectiveCall call);
  // The rank has sent or received.
  Calls& passes(base::Rank rank, const Group& group, const model::CollectiveCall& call);
  // NCCL: the GPU has reached this stage of the newest call.
  Calls& reaches(base::Rank rank, const Group& group, model::CallStage stage);

  model::Communicator& comm(base::Rank rank, const Group& group);

  model::CollectiveFacts facts;

 private:
  // Adds the call to the lane of the rank.
  void remember(base::Rank rank, const Group& group, const model::CollectiveCall& call);
};

// The verdict on a hang in which every rank waits in all_reduce by its stack.
model::Verdict hang(const Calls& calls, int ranks = 4);

// `to`: the new number of each rank.
model::RankSet renumbered(const model::RankSet& ranks, const std::vector<base::Rank>& to);

}  // namespace xpurun::report::testing
