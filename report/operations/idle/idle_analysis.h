// "Why were the GPUs idle?": the recorded work of the ranks of one trace or capture becomes model::IdleTime.
// Pure; ranks are added one after the other.
#pragma once

#include "common/model/speed/idle_time.h"
#include "report/events/rank_record.h"

#include <string>

namespace xpurun::report {

class IdleAnalysis {
 public:
  // `dir` as in IdleTime, `wall_ns` its begin.
  IdleAnalysis(std::string dir, int64_t wall_ns);

  // `open_end`: the record ends with a number of calls, so the last work of some streams may be missing. The
  // spans and the clock are those of `rank`; its events are not read.
  void add(model::EventFile file, const RankRecord& rank, bool open_end);
  void note(std::string text) { out_.notes.push_back(std::move(text)); }
  // Once, after all ranks.
  model::IdleTime finish();

 private:
  model::IdleTime out_;
};

}  // namespace xpurun::report
