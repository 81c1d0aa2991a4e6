// "How long do the single operations take?": the timed calls and spans of all ranks become
// model::OperationTables. Pure; ranks are added one after the other. Memory is bounded: durations are kept as
// sketches, and of each rank one median a row.
#pragma once

#include "common/model/speed/operations.h"
#include "report/operations/blocks.h"
#include "report/operations/rank_operations.h"
#include "report/operations/samples.h"
#include "report/operations/unsafe_sends.h"
#include "report/speed/primitives/duration_sketch.h"
#include "report/speed/roles/communicator_links.h"
#include "report/speed/roles/rank_roles.h"

#include <map>
#include <string>
#include <vector>

namespace xpurun::report {

class OperationAnalysis {
 public:
  // `expected_ranks` divides the memory for collectives.
  explicit OperationAnalysis(size_t expected_ranks = 1) : links_(expected_ranks) {}

  // Files of the same rank belong into one call.
  void add(const RankRecord& rank);
  // Once, after all ranks.
  model::OperationTables finish();
  // After finish(): for a comparison. Communicators of equal names and sizes are taken together.
  std::vector<OperationSamples> samples() const;
  // Which ranks do the same work, as far as their calls tell.
  const RankRoles& roles() const { return roles_; }
  const CommunicatorLinks& links() const { return links_; }

 private:
  struct Row {
    DurationSketch durations;
    double work = 0;
    uint64_t least_work = 0;
    uint64_t most_work = 0;
    double calls = 0;
    bool calls_known = true;  // of all ranks
    uint32_t sources = 0;
    double peak = -1;  // FLOP/s; 0: unknown, or the ranks differ
    double share = 0;  // sum over the ranks: total time over the time of the rank's spans
    std::vector<model::SlowestRank> ranks;
    std::vector<model::RankDurations> spread;  // of a collective
    BlockMeans blocks;                         // ns
  };

  void merge(const OperationRow& from, const RankOperations& of, base::Rank rank, Row& to);
  void find_families();
  model::CallTimes times_of(const Row& row) const;
  void put(const OperationKey& key, const Row& row, model::Lateness lateness, model::OperationTables& out);
  std::string sample_name(const OperationKey& key) const;
  void put_durations();
  void put_lateness(const std::map<uint32_t, model::Lateness>& lateness);
  std::string collective_name(const OperationKey& key, double bytes) const;
  void put_communicator(const OperationKey& key, const Row& row, model::CollectiveRow& to) const;

  struct Member {
    std::string name;
    std::vector<base::Rank> ranks;
  };
  std::map<std::pair<uint64_t, int>, Member> communicators_;
  std::map<std::pair<uint64_t, int>, std::string> families_;
  std::vector<RankPlace> places_;
  RankRoles roles_;
  CommunicatorLinks links_;
  std::map<OperationKey, uint32_t> index_;  // into rows_
  std::vector<Row> rows_;
  Meetings meetings_;
  UnsafeSends unsafe_sends_;
  model::OperationTables out_;
};

}  // namespace xpurun::report
