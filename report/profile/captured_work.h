// Sums of the kernels, memory operations and calls that CUPTI recorded during a capture, by name. Pure.
#pragma once

#include "common/model/resources/resource_file.h"
#include "common/model/speed/gpu_capture.h"
#include "common/model/timing/event_file.h"
#include "report/profile/resource_sums.h"
#include "report/speed/primitives/duration_sketch.h"
#include "report/speed/roles/communicator_links.h"
#include "report/speed/roles/rank_roles.h"

#include <compare>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace xpurun::report {

struct WorkKey {
  model::WorkKind kind = model::WorkKind::kernel;
  std::string name;  // of the kernel or call
  model::LinkClass link = model::LinkClass::unknown;

  auto operator<=>(const WorkKey&) const = default;
};

// Of all events of one key on one rank.
struct WorkSum {
  uint64_t count = 0;
  double total_s = 0;     // within the capture
  double duration_s = 0;  // with what lies outside of it
  double squares = 0;     // of the durations, s^2
  double path_s = 0;
  RunningSums resources;
};

class CapturedWorkTable {
 public:
  // Ranks are compared with those of the same role. Collectives of different link classes are different work.
  explicit CapturedWorkTable(const RankRoles& roles = {}, const CommunicatorLinks& links = {})
      : roles_(roles), links_(links) {}

  // Sets `rank.busy_share`, and with samples the means of `rank.sampling`. Events and samples outside of the
  // rank's time are left out. `samples` may be nullptr.
  void add(model::RankActivity& rank, const model::EventFile& file,
           const model::ResourceFile* samples = nullptr);

  // Work with 1 % of the time of some rank, by its part on the critical path, the largest first. A rank
  // stands out if its share is above the others' median (in collectives, where ranks wait for late ones:
  // below) by 2 % of the time, a tenth of the median and four robust standard deviations, and fewer than half
  // of the ranks do so; of two ranks, one may.
  std::vector<model::CapturedWork> work() const;

 private:
  struct Rank {
    base::Rank rank = base::kNoRank;
    double seconds = 0;
    std::map<WorkKey, WorkSum> sums;
  };

  model::CapturedWork summary(const WorkKey& key) const;

  RankRoles roles_;
  CommunicatorLinks links_;
  std::vector<Rank> ranks_;
  std::map<WorkKey, DurationSketch> durations_;  // of all ranks
};

}  // namespace xpurun::report
