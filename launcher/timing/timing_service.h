// TimingService: the timing of all ranks. It gives a process its shared memory at the process's first GPU
// call, drains the memory ten times a second into statistics, event files and the active trace, and makes the
// data of a scrape. Before the first GPU call nothing of this runs. Event loop's thread only.
#pragma once

#include "common/model/collectives.h"
#include "common/model/run_dir.h"
#include "launcher/collect/collector.h"
#include "launcher/collect/event_files.h"
#include "launcher/metrics/node_metrics.h"
#include "launcher/options/run_options.h"
#include "launcher/os/timer.h"
#include "launcher/processes/process_table.h"
#include "launcher/storage/storage.h"
#include "launcher/timing/collective_looks.h"
#include "launcher/timing/lateness_watch.h"
#include "launcher/timing/slow_rank_watch.h"
#include "launcher/timing/timelines.h"
#include "launcher/timing/trace_session.h"

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace xpurun::launcher {

class TimingService {
 public:
  struct Parts {
    EventLoop& loop;
    Storage& storage;
    ProcessTable& table;
    const RunOptions& options;
  };
  // What other parts know about a rank and about dumps.
  struct RankProgress {
    double still_s = -1;  // seconds since the last progress; negative: not watched
    bool hung = false;
    uint64_t steps = 0;  // of training
    double step_s = -1;  // mean of the last ones; negative: no step was seen
    CpuLosses cpu;
    HostMemory memory;
    model::GpuMemory gpu;
  };
  struct DumpActivity {
    bool dumping = false;
    double last_s = 0;  // duration of the last dump; 0: no dump yet
  };
  struct Hooks {
    std::function<RankProgress(base::Pid)> progress;
    std::function<DumpActivity()> dumps;
    std::function<void(base::Pid)> unknown_process;  // a process that the table lacks has attached
    std::function<void()> first_gpu_use;             // by any process of the job
    // Mean of the last steps of the slowest rank; negative: no step was seen.
    std::function<double()> step_s = [] { return -1.0; };
    std::function<void(bool)> every_call_timed = [](bool) {};  // called when it begins and ends
    // Events of a rank, as they arrive.
    std::function<void(base::Rank, std::span<const wire::Event>, const wire::Segment&)> events =
        [](base::Rank, std::span<const wire::Event>, const wire::Segment&) {};
    // A rank keeps the others waiting; `share` of the time of a step.
    std::function<void(base::Rank, double share)> slow_rank = [](base::Rank, double) {};
    std::function<void(base::Rank)> no_longer_slow = [](base::Rank) {};  // the same rank
    // Times that the job became slower.
    std::function<uint64_t()> slow_events = [] { return uint64_t{0}; };
    // Lost by all ranks together, in stalls and in slower steps.
    std::function<double()> lost_rank_s = [] { return 0.0; };
    std::function<uint64_t()> mismatches = [] { return uint64_t{0}; };  // communicators with wrong data
    std::function<std::vector<Culprit>()> culprits = [] { return std::vector<Culprit>(); };
    std::function<std::vector<model::MachineSeries>()> machine = [] {
      return std::vector<model::MachineSeries>();
    };
    std::function<std::vector<GpuThrottling>()> gpus = [] { return std::vector<GpuThrottling>(); };
  };
  enum class WhichRanks { living, all };

  TimingService(Parts parts, model::RunDir dir, std::string host, Hooks hooks);
  TimingService(const TimingService&) = delete;
  TimingService& operator=(const TimingService&) = delete;

  // A process asks for its segment. `answer` is called once, before the return, with the descriptor to send,
  // or with -1.
  void attach(base::Pid pid, const std::function<void(int descriptor)>& answer);

  // The requested level. An active trace raises the level of the ranks above it.
  void set_level(wire::Level level);
  wire::Level level() const { return level_; }
  // The level of the command line.
  wire::Level default_level() const;
  Collector& collector() { return collector_; }
  // Spans of a rank. In a job without a GPU, the calls of torch.distributed show which rank is late.
  void spans_arrived(base::Rank rank, std::span<const model::Span> spans,
                     const std::vector<std::string>& names);
  RankLateness lateness(base::Rank rank) const { return lateness_.of(rank); }
  // The next steps are looked at: the job has changed.
  void look_now() { looks_.look_now(); }
  // By less than what is reported: looks which rank it is.
  void steps_take_longer() {
    slow_ranks_.expect_one();
    looks_.look_now();
  }
  // The rank that was reported as slow was so by chance.
  void forget_slow_rank() { slow_ranks_.forget(); }
  TraceSession& trace() { return trace_; }
  const TraceSession& trace() const { return trace_; }

  NodeMetrics node_metrics(WhichRanks which);
  // Everything about one process; null if it has not used a GPU. Valid until the next call.
  const RankTiming* read(const TimedProcess& process) { return collector_.read(process); }

  // Writes timing.json of this moment into the directory of a dump, and the event files.
  void save(const std::string& directory);
  // The NCCL calls of the ranks, including ended ranks; empty if no rank has a communicator.
  model::CollectiveFacts calls();
  // End of the job: timing.json and metrics.prom of all ranks, the ended ones too. Stops draining.
  void finish();

 private:
  void drain();
  TimelinePlan::Look look_at_steps();
  std::set<base::Rank> timed_ranks() const;
  void apply_level();
  void look_for_slow_ranks();
  void forget_dead_processes();
  std::vector<RankTiming> timing_of_ranks();
  void events_arrived(base::Pid pid, const RankTiming& timing, std::span<const wire::Event> events,
                      const wire::Segment& memory);

  Parts parts_;
  model::RunDir dir_;
  std::string host_;
  Hooks hooks_;
  Collector collector_;
  EventFiles event_files_;
  wire::Level level_;
  CollectiveLooks looks_;
  LatenessWatch lateness_;
  SlowRankWatch slow_ranks_;
  size_t looks_judged_ = 0;
  TraceSession trace_;
  Timelines timelines_;
  bool every_call_ = false;
  // Of Python, for metrics.
  struct Counts {
    uint64_t collections = 0;
    uint64_t batches = 0;
  };
  std::map<base::Rank, Counts> python_;
  Timer drain_timer_{parts_.loop};
};

}  // namespace xpurun::launcher
