// UnsafeSends: sends of MPI that end only because the library buffers their messages. Each of these calls of
// MPI_Send comes before the receive that the next one of the circle needs: with larger messages, or with
// another library, the program hangs. From the timed calls; the clocks of hosts do not matter. Pure.
#pragma once

#include "common/model/speed/operations.h"
#include "report/events/rank_record.h"

#include <unordered_map>
#include <vector>

namespace xpurun::report {

class UnsafeSends {
 public:
  void add(const RankRecord& rank);
  // Once, after all ranks: most frequent first.
  std::vector<model::UnsafeSendRow> finish();

 private:
  static constexpr size_t kMostOfARank = 100'000;  // messages
  static constexpr size_t kMostRows = 20;

  struct Send {
    base::Rank rank = base::kNoRank;
    std::string place;
    uint64_t bytes = 0;
  };
  std::unordered_map<uint64_t, Send> sends_;  // by message
  std::unordered_map<uint64_t, uint64_t>
      before_;  // message: the latest send of its receiver before the receive
};

}  // namespace xpurun::report
