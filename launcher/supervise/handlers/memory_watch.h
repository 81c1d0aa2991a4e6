// MemoryWatch: whether the memory of the ranks grows, on the host and on their GPUs. The growth goes into
// run.json; a growth that will soon reach the limit of the control group, of the host, or of a GPU is said
// while the job runs. Event loop's thread only.
#pragma once

#include "common/model/memory/memory_look.h"
#include "common/model/rank_set.h"
#include "common/model/timing/span.h"
#include "launcher/journal/journal.h"
#include "launcher/machine/memory/control_groups.h"
#include "launcher/options/run_options.h"
#include "launcher/processes/process_table.h"
#include "launcher/spans/memory_growth.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

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
    // The memory of a rank grows: who holds it? `on_host`: also Python's own objects count.
    std::function<void(base::Pid, bool on_host)> examine;
  };
  MemoryWatch(Parts parts, Hooks hooks) : parts_(parts), hooks_(std::move(hooks)) {}

  // A sample of the load of a rank.
  void add(base::Pid pid, const model::LoadSample& load);
  // A look of a rank. After a warning, the holders that grow are said, once.
  void looked(const model::MemoryLook& look);

 private:
  struct Kind {
    MemorySeries series;
    std::optional<MemorySeries::Growth> growth;
  };
  struct Watched {
    uint64_t start_ticks = 0;  // of the process
    Kind host;
    Kind gpu;
    model::GpuMemory gpu_memory;  // latest sample
    base::MonoNs latest = 0;      // sample
    base::MonoNs examined = 0;    // 0: never
  };
  struct Grower {
    const TrackedProcess* process = nullptr;
    const Watched* watched = nullptr;
  };

  void look(base::MonoNs now);
  void examine(base::Pid pid, Watched& watched, base::MonoNs now);
  void note(TrackedProcess& process, const Watched& watched, base::MonoNs now);
  model::MemoryGrowth recorded(const MemorySeries::Growth& growth, base::MonoNs now) const;
  void warn_of_host(const std::vector<Grower>& growers);
  void warn_of_gpu(const std::vector<Grower>& growers);
  // `sentence` words the warning in the language that is spoken.
  void say(const std::function<std::string()>& sentence, const model::RankSet& ranks);

  Parts parts_;
  Hooks hooks_;
  std::map<base::Pid, Watched> watched_;
  base::MonoNs looked_ = 0;
  bool said_host_ = false;
  bool said_gpu_ = false;
  bool said_holders_ = false;
};

}  // namespace xpurun::launcher
