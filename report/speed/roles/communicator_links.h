// CommunicatorLinks: whether the ranks of each communicator are on one node or on several, from the hosts of
// the ranks; and of which of them a captured kernel of NCCL is, which knows no communicator. Pure.
#pragma once

#include "common/model/speed/link_class.h"
#include "report/events/rank_record.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace xpurun::report {

class CommunicatorLinks {
 public:
  CommunicatorLinks() : CommunicatorLinks(1) {}
  // `most`: timed collectives that are kept, of all ranks together.
  explicit CommunicatorLinks(size_t expected_ranks, size_t most = size_t{1} << 20);

  // Files of the same rank belong into one call.
  void add(const RankRecord& rank);
  // Of the communicator with this identity and number of ranks. Several hosts are certain as soon as two of
  // its ranks are known, one host only when all are.
  model::LinkClass of(uint64_t identity, int size) const;
  // Of a kernel of NCCL on a rank, between two moments of CLOCK_MONOTONIC of its host: the class of all
  // communicators of the rank, else of the timed collectives that overlap at least half of the kernel.
  model::LinkClass of_kernel(base::Rank rank, int64_t begin_ns, int64_t end_ns) const;

 private:
  using Id = std::pair<uint64_t, int>;
  struct Timed {
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    Id id;
  };
  struct OfRank {
    std::set<Id> communicators;  // of several ranks
    std::vector<Timed> timed;    // the latest ones, by begin
    int64_t longest_ns = 0;
  };
  struct Member {
    std::set<base::Rank> ranks;
    std::set<std::string> hosts;
  };

  size_t most_of_a_rank_;
  std::map<Id, Member> communicators_;
  std::map<base::Rank, OfRank> ranks_;
};

}  // namespace xpurun::report
