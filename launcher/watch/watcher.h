// Watcher: repeatedly polls the ranks and walks the processes of the job, without touching them, and reports
// stalls to its listener. Event loop's thread only.
#pragma once

#include "common/model/dump_manifest.h"
#include "launcher/options/run_options.h"
#include "launcher/os/event_loop.h"
#include "launcher/processes/child_waits.h"
#include "launcher/processes/native_calls.h"
#include "launcher/processes/process_table.h"
#include "launcher/watch/hang_detector.h"
#include "launcher/watch/rank_probe.h"
#include "launcher/watch/unwatched_job.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace xpurun::launcher {

class Watcher {
 public:
  struct Parts {
    EventLoop& loop;
    ProcessTable& table;
    const RunOptions& options;
    base::MonoNs started = 0;  // start of the run
    std::string host;
  };
  struct Listener {
    std::function<void(const StallEvent&)> stall_changed;
    // For each rank in a recorded call: the ranks of that call. Asked only while a rank is still; may be
    // empty.
    std::function<std::map<base::Rank, model::RankSet>()> open_calls;
    // What the main thread of a process does in MPI; may be empty.
    std::function<std::optional<NativeCalls>(base::Pid)> native_calls;
    // Ranks that cannot go on, by the recorded calls. Asked when ranks have become still; may be empty.
    std::function<model::RankSet()> proved = {};
    // The ends of steps are seen, so that somebody else looks at a silence; may be empty.
    std::function<bool()> steps_seen = {};
    // Looks at a process, unless another look is under way; looked() gets the result. May be empty.
    std::function<void(base::Pid, LookFor)> look = {};
    std::function<void()> rank_found;     // another rank is being watched
    std::function<void()> table_updated;  // the records of the table may have changed
    std::function<void(const std::string& warning)> warn;
  };
  // For tests: a replacement for RankWatch.
  using MakeProbe = std::function<std::unique_ptr<RankProbe>(base::Rank, base::Pid, base::MonoNs now,
                                                             double hang_timeout_s)>;

  // `ranks_are_held`: whether a dump is in progress. The ranks are not polled in the meantime, because a
  // debugger may hold them for many seconds.
  Watcher(Parts parts, const Listener& listener, std::function<bool()> ranks_are_held);
  Watcher(Parts parts, Listener listener, std::function<bool()> ranks_are_held, MakeProbe make_probe);
  ~Watcher() { stop(); }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // Makes the first discovery and then polls until stop().
  void start();
  void stop() { parts_.loop.cancel(timer_); }
  // Walks all processes of the job now.
  void discover();
  // Walks them if walks have not taken too much time lately.
  void discover_if_cheap();
  // Looks at one process, which may be new or may have called exec.
  void look_at(base::Pid pid, bool executed = false);
  // A process has died; a rank's last observation is kept.
  void process_ended(base::Pid pid, base::WaitStatus status);
  // For who cannot wait for the hang timeout: a rank that has stood still for `still_s` is a stall now. Later
  // stalls wait for the timeout again.
  enum class Look {
    now,     // takes a sample
    before,  // at the latest samples: by now the ranks may have got a signal
  };
  void look_for_stall(double still_s, Look look);
  void looked(base::Pid pid, const NativeLook& look);
  // Whether further looks may prove that a rank has stood still for `still_s`.
  bool wants_more_looks(double still_s) const;
  // An exception has ended a process of the rank.
  void helper_failed(base::Rank rank);
  // A dump has held the ranks for this duration.
  void held_up(base::MonoNs duration);

  // For all ranks, living and dead, ordered by rank.
  std::vector<model::RankObservation> observations() const;
  // First the watched ranks that live, then the ranks that died while they were watched.
  std::vector<model::RankObservation> living_observations() const;
  // Of the ranks that died while they were watched, as of their deaths.
  std::vector<model::RankObservation> last_observations() const;
  // Empty if the process is not watched.
  std::optional<double> still_s(base::Pid pid) const;
  // Of a watched rank; 0 if there is none.
  double rank_still_s(base::Rank rank) const;
  base::MonoNs next_poll() const { return next_poll_; }

 private:
  void schedule();
  void poll();
  void process_known();
  void forgive_lateness(base::MonoNs now);
  void find_spawners_and_discover(base::MonoNs now);
  void sample_ranks(base::MonoNs now);
  void look_at_stacks(base::MonoNs now);
  void leave_managers();
  void sample_launcher(base::MonoNs now);
  void note_position(const RankProbe& probe, base::Pid pid);
  void find_stalls(base::MonoNs now);
  void look_early(base::MonoNs now);
  std::vector<StillRank> still_ranks(base::MonoNs now);
  void mark_proved(base::MonoNs now, std::vector<StillRank>& ranks);
  double since_start_s(base::MonoNs at) const { return base::ns_to_s(at - parts_.started); }

  Parts parts_;
  Listener listener_;
  std::function<bool()> ranks_are_held_;
  MakeProbe make_probe_;
  ChildWaits child_waits_;
  HangDetector detector_;
  UnwatchedJob unwatched_;
  std::map<base::Pid, std::unique_ptr<RankProbe>> probes_;  // of living ranks
  std::map<base::Pid, model::RankObservation> gone_;        // the last observation of dead ranks
  std::unique_ptr<RankProbe> launcher_;                     // which has not started a rank yet
  base::Pid launcher_pid_ = 0;
  bool said_rendezvous_ = false;
  // Still ranks for which the proof was asked last, with the times of their last progress, and the answer.
  std::map<base::Rank, base::MonoNs> asked_;
  model::RankSet proved_;
  std::set<base::Pid> looked_at_;  // early, since they stand still
  EventLoop::TimerId timer_ = 0;
  bool looking_ = false;  // in look_for_stall()
  base::MonoNs last_poll_ = 0;
  base::MonoNs planned_ = 0;      // time from the last poll to the next
  base::MonoNs cpu_at_poll_ = 0;  // CPU time of xpurun at the last poll
  base::MonoNs next_poll_ = 0;
  double discovery_interval_s_ = 0;
  base::MonoNs next_discovery_ = 0;
  base::MonoNs next_walk_ = 0;  // not before, because of what the last walk has cost
};

}  // namespace xpurun::launcher
