// Meetings: which rank arrives last at collectives, and what that costs the others. Memory is bounded: of too
// many collectives a part is kept, the same on every rank.
#pragma once

#include "common/model/speed/operations.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace xpurun::report {

// One rank in one collective. Times are ns on the clock of the analysis.
struct RankArrival {
  uint64_t meeting = 0;  // equal on all ranks of the collective, and on no other; a hash
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint32_t row = 0;                // index of the row of a table
  uint32_t rank : 31 = 0;          // index into the ranks of lateness()
  uint32_t ends_together : 1 = 0;  // no rank could leave before all had entered
};

struct RankPlace {
  base::Rank rank = base::kNoRank;
  std::string host;
};

class Meetings {
 public:
  explicit Meetings(size_t most = size_t{4} << 20) : most_(most) {}

  void add(const RankArrival& arrival);
  // By row. Once: the arrivals are dropped. Clocks of hosts are corrected by the ends of the collectives.
  std::map<uint32_t, model::Lateness> lateness(const std::vector<RankPlace>& ranks);
  // Of a row, after lateness(): mean seconds after the median of the others, by rank.
  std::map<base::Rank, double> mean_late(uint32_t row) const;
  // Of a row, after lateness(): seconds from the last arrival to the last end, as medians of blocks.
  std::vector<double> transfer_blocks(uint32_t row) const { return of_row(transfer_blocks_, row); }
  // Likewise from the first arrival to the last one.
  std::vector<double> skew_blocks(uint32_t row) const { return of_row(skew_blocks_, row); }
  // Of each rank, by rank: mean time in s from the first arrival to its own.
  std::map<base::Rank, double> skew_of_ranks(uint32_t row) const;

 private:
  using Blocks = std::map<uint32_t, std::vector<double>>;  // ns, by row

  static std::vector<double> of_row(const Blocks& blocks, uint32_t row);
  void thin_out();
  void align_hosts(const std::vector<RankPlace>& ranks);

  size_t most_;
  uint64_t mask_ = 0;  // meetings with one of these bits are not kept
  std::vector<RankArrival> arrivals_;
  Blocks transfer_blocks_;
  Blocks skew_blocks_;
  std::map<uint32_t, std::map<base::Rank, double>> rank_skews_;  // s, by row
  std::map<uint32_t, std::map<base::Rank, double>> mean_late_;   // s, by row
};

}  // namespace xpurun::report
