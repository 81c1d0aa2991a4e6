// Measurement: joins the parts that measure the ranks while they run: timed calls, spans and calls of Python,
// steps, captures, the GPUs' clocks. The parts own the state; this class owns the parts and sets the hooks
// between them. Event loop's thread only.
#pragma once

#include "launcher/capture/activity_session.h"
#include "launcher/capture/capture_runner.h"
#include "launcher/capture/gpu_watch.h"
#include "launcher/dumps/dump_coordinator.h"
#include "launcher/ending/helper_list.h"
#include "launcher/ending/job_state.h"
#include "launcher/heap/heap_looks.h"
#include "launcher/journal/journal.h"
#include "launcher/machine/machine_watch.h"
#include "launcher/mpi/mpi_segments.h"
#include "launcher/notify/notifier.h"
#include "launcher/options/run_options.h"
#include "launcher/supervise/handlers/memory_watch.h"
#include "launcher/supervise/handlers/mismatch_watch.h"
#include "launcher/supervise/handlers/recorded_calls.h"
#include "launcher/supervise/handlers/slowdown_handler.h"
#include "launcher/supervise/python_reports.h"
#include "launcher/timing/metrics_server.h"
#include "launcher/timing/timing_service.h"
#include "launcher/watch/watcher.h"

#include <functional>
#include <signal.h>
#include <string>

namespace xpurun::launcher {

class Measurement {
 public:
  struct Parts {
    EventLoop& loop;
    Storage& storage;
    Journal& journal;
    ProcessTable& table;
    const RunOptions& options;
    // Used once the loop runs.
    Watcher& watcher;
    const DumpCoordinator& dumps;
    Notifier& notifier;
    const JobState& job;
  };
  struct Setup {
    std::string host;
    std::string directory;  // of the run, absolute
    sigset_t signal_mask{};
    int stderr_fd = -1;  // of the helpers
  };
  struct Hooks {
    std::function<bool()> stall_open;
    std::function<void()> look_for_stall;                         // who stands still is a stall now
    std::function<void()> gpu_used;                               // by the first process of the job
    std::function<void(base::Pid, base::WaitStatus)> rank_ended;  // of a rank that was added after its end
    std::function<void()> judge_steps;  // makes a verdict on the steps so far, for speed().judged()
    std::function<void(const std::string&)> say;
  };

  Measurement(const Parts& parts, const Setup& setup, Hooks hooks);
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;

  void add_helpers(HelperList& helpers);
  // Writes the timing and the calls of this moment into the directory of a dump, and returns the calls.
  model::CollectiveFacts save(const std::string& directory);
  // The calls of torch.distributed alone.
  model::CollectiveFacts python_calls() const;
  // At the end of the job.
  void finish_files();

  TimingService& timing() { return timing_; }
  PythonReports& python() { return python_; }
  MpiSegments& mpi() { return mpi_; }
  HeapLooks& heap() { return heap_; }
  SlowdownHandler& speed() { return speed_; }
  const StepWatch& steps() const { return speed_.watch(); }
  const model::RankSet& slow_ranks() const { return speed_.slow_ranks(); }
  ActivitySession& activity() { return activity_; }
  CaptureRunner& captures() { return captures_; }
  const RecordedCalls& calls() const { return calls_; }
  MetricsServer& metrics() { return metrics_; }
  const GpuWatch& gpus() const { return gpu_watch_; }

 private:
  PythonReports::Hooks python_hooks();
  SlowdownHandler::Hooks speed_hooks();
  MemoryWatch::Hooks memory_hooks();
  HeapLooks::Hooks heap_hooks();
  TimingService::Hooks timing_hooks();
  std::vector<Culprit> culprits() const;
  std::function<void(base::Pid)> helper_started();
  std::vector<WatchedRank> watched_ranks() const;
  std::string name_of_stranger(base::Pid pid) const;
  void add_mpi_calls(model::CollectiveFacts& facts);

  Parts parts_;
  Hooks hooks_;
  MpiSegments mpi_;
  CallPlaces places_;
  PythonReports python_;
  SlowdownHandler speed_;
  HeapLooks heap_;
  MemoryWatch memory_;
  TimingService timing_;
  ActivitySession activity_;
  CaptureRunner captures_;
  GpuWatch gpu_watch_;
  MachineWatch machine_;
  RecordedCalls calls_;
  MismatchWatch mismatches_;
  MetricsServer metrics_;
};

}  // namespace xpurun::launcher
