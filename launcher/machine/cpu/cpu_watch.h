// CpuWatch: whether threads of the ranks are ready to run and get no CPU, and, only while they do, who has
// their CPUs. Cheap while all is well: one look at the scheduler's counters every two seconds. Not
// thread-safe.
#pragma once

#include "common/base/clock.h"
#include "common/model/evidence/machine.h"
#include "launcher/machine/cpu/cpu_looks.h"
#include "launcher/machine/cpu/cpu_switches.h"
#include "launcher/machine/cpu/watched_rank.h"
#include "launcher/os/run_delay.h"
#include "launcher/processes/throttled_cpu.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace xpurun::launcher {

class CpuWatch {
 public:
  struct Setup {
    base::Pid job = 0;                       // xpurun, whose descendants belong to the job
    bool switches = true;                    // by context switches where the kernel allows that
    double budget = 0.0005;                  // of one core for each rank: looks at processes cost no more
    base::MonoNs window_ns = 2'000'000'000;  // of one such look
  };
  explicit CpuWatch(Setup setup) : setup_(setup) {}

  // To be called after the time that it returns, in ms, or earlier.
  int turn(const base::ProcFs& proc, const std::vector<WatchedRank>& ranks, base::MonoNs now);
  // What was seen since the call before.
  void read(model::MachineReading& out);

 private:
  struct Watched {
    base::Pid pid = 0;
    RunDelay delay;
    ThrottledCpu throttled;
    std::string cpus;    // "0-3"
    double ready_s = 0;  // since the begin, without the time of the CPU limit
    int64_t throttled_ns =
        -1;            // by the CPU limit, since the begin; negative: the control groups do not count
    double share = 0;  // of the time since the look before
  };
  struct Window {
    base::MonoNs begin = 0;
    double cpu_begin_s = 0;  // of this process
    std::optional<CpuSwitches> switches;
    std::optional<CpuLooks> looks;
    std::map<int, uint64_t> busy;  // ticks of each CPU
    std::set<base::Rank> ranks;    // that had no CPU at its begin
  };

  void look_at_delays(const base::ProcFs& proc, const std::vector<WatchedRank>& ranks, base::MonoNs now);
  void open(const base::ProcFs& proc, base::MonoNs now);
  void close(const base::ProcFs& proc, const std::vector<WatchedRank>& ranks, base::MonoNs now);

  Setup setup_;
  std::map<base::Rank, Watched> ranks_;
  base::MonoNs looked_at_ = 0;
  base::MonoNs next_window_ = 0;
  std::optional<Window> window_;
  std::vector<model::Intruder> intruders_;
};

// Why the kernel does not let this process record context switches; empty if it does.
std::optional<base::Error> switches_refused();

}  // namespace xpurun::launcher
