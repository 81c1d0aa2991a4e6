// MemoryWatch: whether the host memory of the ranks grows. The growth goes into run.json; a growth that will
// reach the limit of the control group or of the host soon is said while the job runs. Event loop's thread
// only.
#pragma once

#include "common/model/rank_set.h"
#include "common/model/timing/span.h"
#include "launcher/evidence/memory_group.h"
#include "launcher/journal/journal.h"
#include "launcher/options/run_options.h"
#include "launcher/processes/process_table.h"
#include "launcher/spans/memory_growth.h"

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace xpurun::launcher {

class MemoryWatch {
 public:
  struct Parts {
    ProcessTable& table;
    Journal& journal;
    const RunOptions& options;
  };
  struct Hooks {
    std::function<uint64_t(base::Rank)> steps;  // that the rank has made
    std::function<std::optional<MemoryRoom>()> room;
    std::function<void(const std::string& sentence, const model::RankSet& ranks)> grows;  // the event
    std::function<void(const std::string& line)> say;
  };
  MemoryWatch(Parts parts, Hooks hooks) : parts_(parts), hooks_(std::move(hooks)) {}

  // A sample of the load of a rank.
  void add(base::Pid pid, const model::LoadSample& load);

 private:
  struct Watched {
    uint64_t start_ticks = 0;  // of the process
    MemorySeries series;
    std::optional<MemorySeries::Growth> growth;
    base::MonoNs latest = 0;  // sample
  };

  void look(base::MonoNs now);
  void note(TrackedProcess& process, const Watched& watched, base::MonoNs now);

  Parts parts_;
  Hooks hooks_;
  std::map<base::Pid, Watched> watched_;
  base::MonoNs looked_ = 0;
  bool said_ = false;
};

}  // namespace xpurun::launcher
