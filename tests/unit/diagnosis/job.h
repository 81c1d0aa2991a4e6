// Job: builds the facts of a synthetic run: four ranks that wait, except one that sleeps. Times are seconds
// since the run began.
#pragma once

#include "report/diagnosis/diagnose.h"

#include <string>
#include <vector>

namespace xpurun::report::testing {

inline constexpr int kTerm = 15;
inline constexpr int kKill = 9;
inline constexpr int kSegv = 11;
inline constexpr int kAbrt = 6;

// wait(2) status of an exit
constexpr int exited(int code) {
  return code << 8;
}

model::Frame py(std::string func, std::string file, int line, std::string callee = {});
model::Frame native(std::string func, std::string module);

// Main-thread stacks, innermost first.
using Stack = std::vector<model::Frame>;
Stack in_all_reduce(int line = 44);
Stack in_barrier(int line = 51);
Stack in_ddp_backward();  // as on CPU with gloo: only native frames show the wait
Stack in_sleep();         // load_batch (train.py:31: time.sleep)
Stack in_lock();          // user code in threading.Lock.acquire
Stack in_queue();         // user code in queue.get
Stack in_compute();       // user code only
Stack in_dataloader();

class Job {
 public:
  explicit Job(int ranks);

  // Every rank has been still for `seconds`, idle, with this stack.
  Job& all(const Stack& stack, double seconds = 10);
  Job& rank(base::Rank r, const Stack& stack, double seconds = 10);
  Job& cpu(base::Rank r, double share);
  Job& io(base::Rank r, double bytes_per_s);
  Job& kernel_state(base::Rank r, char state);
  // No stacks file; the observation stays.
  Job& unreadable(base::Rank r, const std::string& reason);
  // The interpreter's position is missing too.
  Job& no_position(base::Rank r);
  Job& died(base::Rank r, int wait_status, double at_s, const std::string& cause_hint = {});
  Job& notice(base::Rank r, int signal, double at_s, base::Pid sender = 0, uint64_t address = 0);
  Job& agent_died(int wait_status, double at_s);
  Job& worker(base::Rank r, const Stack& stack);

  // Ways to end the run.
  Job& hang_dump();  // a current stall
  Job& hang_dump_escalated();
  Job& ended_as_hang();          // killed by xpurun
  Job& ended(int child_status);  // by itself
  // What the rank holds in append_loss (train.py:55), and the growth in 100 steps.
  Job& leaked(base::Rank rank, int64_t bytes, int64_t grown);
  Job& crash_dump();  // of the first notice

  Facts facts;

  model::ProcessStacks& stacks_of(base::Rank r);
  model::RankObservation& seen(base::Rank r);
  model::ProcessRecord& record(base::Rank r);
  static base::Pid pid_of(base::Rank r) { return 100 + r; }
  static constexpr base::Pid kAgentPid = 50;

 private:
  void dump(model::DumpReason why);
};

}  // namespace xpurun::report::testing
