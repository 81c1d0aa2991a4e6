// RankRestart: ends the ranks of this node so that their launcher, a torchelastic agent, restarts them: TERM
// to the ranks, a grace time, then KILL to the remaining ranks and their workers. The launcher lives on.
// Event loop's thread only.
#pragma once

#include "common/base/os/procfs.h"
#include "launcher/os/timer.h"
#include "launcher/processes/death_ledger.h"
#include "launcher/processes/process_table.h"

#include <functional>
#include <set>
#include <string>

namespace xpurun::launcher {

class RankRestart {
 public:
  struct Parts {
    EventLoop& loop;
    ProcessTable& table;
    DeathLedger& ledger;
  };

  // `restarted`: the launcher has restarted the first of the ranks.
  explicit RankRestart(Parts parts, std::function<void()> restarted, base::ProcFs proc = base::ProcFs())
      : parts_(parts), restarted_(std::move(restarted)), proc_(std::move(proc)) {}
  RankRestart(const RankRestart&) = delete;
  RankRestart& operator=(const RankRestart&) = delete;

  // Why no launcher would restart the ranks; empty if one will. Read from the ranks' environment.
  std::string obstacle() const;
  // grace_s kForever: no KILL. Stopped processes are continued, because otherwise they could not end.
  void begin(double grace_s);
  // The ranks were ended, and none has started since.
  bool pending() const { return pending_; }
  // Call when ranks were found.
  void rank_found();

 private:
  std::string obstacle_of(const TrackedProcess& rank) const;
  void kill_rest();

  Parts parts_;
  std::function<void()> restarted_;
  base::ProcFs proc_;
  std::set<base::Pid> ended_;  // ranks and their workers
  bool pending_ = false;
  Timer timer_{parts_.loop};
};

}  // namespace xpurun::launcher
