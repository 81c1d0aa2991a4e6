// RankRestart: ends the ranks of this node, so that their launcher, a torchelastic agent, starts them again:
// TERM to the ranks, a grace time, then KILL to what is left of them and their helpers. The launcher lives
// on. Event loop's thread only.
#pragma once

#include "common/base/os/procfs.h"
#include "launcher/os/event_loop.h"
#include "launcher/processes/death_ledger.h"
#include "launcher/processes/process_table.h"

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

  explicit RankRestart(Parts parts, base::ProcFs proc = base::ProcFs())
      : parts_(parts), proc_(std::move(proc)) {}
  ~RankRestart() { parts_.loop.cancel(timer_); }
  RankRestart(const RankRestart&) = delete;
  RankRestart& operator=(const RankRestart&) = delete;

  // Why no launcher would start the ranks again; empty if one will. Read from the environment of the ranks.
  std::string obstacle() const;
  // grace_s kForever: no KILL. Stopped processes are continued, or they could not end.
  void begin(double grace_s);
  // The ranks have been ended and none has been started since.
  bool pending() const { return pending_; }
  // Ranks have been found. Whether the launcher has just started the first of them again.
  bool started_again();

 private:
  std::string obstacle_of(const TrackedProcess& rank) const;
  void kill_rest();

  Parts parts_;
  base::ProcFs proc_;
  std::set<base::Pid> ended_;  // ranks and their helpers
  bool pending_ = false;
  EventLoop::TimerId timer_ = 0;
};

}  // namespace xpurun::launcher
