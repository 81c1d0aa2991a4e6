// Supervisor: joins the parts that start the command, watch the ranks, take dumps, judge and end the job. The
// parts own the state; what passes from one part to another passes through the hooks that are set here.
// Single-threaded; everything happens in handlers of the loop.
#pragma once

#include "launcher/capture/activity_session.h"
#include "launcher/capture/capture_runner.h"
#include "launcher/capture/gpu_watch.h"
#include "launcher/control/notice_server.h"
#include "launcher/dumps/dump_coordinator.h"
#include "launcher/ending/job_ending.h"
#include "launcher/ending/rank_restart.h"
#include "launcher/ending/reaper.h"
#include "launcher/journal/journal.h"
#include "launcher/notify/notifier.h"
#include "launcher/options/run_options.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/signals.h"
#include "launcher/output/messages.h"
#include "launcher/output/status_line.h"
#include "launcher/processes/process_table.h"
#include "launcher/spawn/helper_complaints.h"
#include "launcher/spawn/inherited_state.h"
#include "launcher/spawn/spare_descriptors.h"
#include "launcher/storage/storage.h"
#include "launcher/supervise/control_api.h"
#include "launcher/supervise/handlers/crash_handler.h"
#include "launcher/supervise/handlers/death_handler.h"
#include "launcher/supervise/handlers/end_record.h"
#include "launcher/supervise/handlers/evidence_service.h"
#include "launcher/supervise/handlers/job_logs.h"
#include "launcher/supervise/handlers/notice_router.h"
#include "launcher/supervise/handlers/recorded_calls.h"
#include "launcher/supervise/handlers/signal_handler.h"
#include "launcher/supervise/handlers/slowdown_handler.h"
#include "launcher/supervise/handlers/stall_handler.h"
#include "launcher/supervise/listeners.h"
#include "launcher/supervise/nodes/node_handler.h"
#include "launcher/supervise/python_reports.h"
#include "launcher/supervise/reporting/report_runner.h"
#include "launcher/supervise/verdict_handler.h"
#include "launcher/timing/metrics_server.h"
#include "launcher/timing/timing_service.h"
#include "launcher/watch/watcher.h"

#include <functional>
#include <string>
#include <vector>

namespace xpurun::launcher {

// How the process stands between its caller and the command.
struct ProcessSetup {
  SignalInbox inbox;
  const InheritedState& inherited;
  SpareDescriptors& spares;  // free for the start of the command
  Messages& messages;
  FooterRecord& footer;
};

class Supervisor {
 public:
  // The storage outlives the supervisor.
  Supervisor(EventLoop& loop, const RunOptions& options, Storage& storage, DirFacts dir, ProcessSetup setup);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Runs the command to its end. The error is one of starting it; run.json then says spawn_failed.
  base::Result<int> run();

 private:
  Reaper::Hooks reaper_hooks();
  JobEnding::Hooks ending_hooks();
  Watcher::Listener watch_listener();
  DumpCoordinator::Hooks dump_hooks();
  TimingService::Hooks timing_hooks();
  NodeHandler::Hooks node_hooks();
  VerdictHandler::Hooks verdict_hooks();
  SignalHandler::Hooks signal_hooks();
  NoticeRouter::Hooks notice_hooks();
  StallHandler::Nodes stall_nodes();
  EndRecord::Hooks end_record_hooks();
  ControlApi::Hooks control_hooks();

  void start_status_line();
  base::Status start_command();
  void attach_to_job();
  // Each rank gets pipes to the relay; the preload in each rank tells the ranks apart.
  void arrange_logs(std::vector<std::string>& env);
  base::Result<int> run_command();

  void reports_done();
  void drain_logs(std::function<void()> done);
  LiveStatus live_status();
  std::string status_line(size_t columns);
  void say(const std::string& line) const { messages_.say(line); }

  EventLoop& loop_;
  const RunOptions& options_;
  Storage& storage_;
  DirFacts dir_;
  SignalInbox inbox_;
  const InheritedState& inherited_;
  SpareDescriptors& spares_;
  Messages& messages_;
  std::string host_;

  HelperComplaints complaints_;
  Journal journal_;
  ProcessTable table_;
  ReportRunner reports_;
  JobLogs logs_;
  NoticeServer notices_;
  PythonReports python_;
  SlowdownHandler speed_;
  Reaper reaper_;
  JobEnding ending_;
  Watcher watcher_;
  EvidenceService evidence_;
  Notifier notifier_;
  RankRestart restart_;
  DumpCoordinator dumps_;
  TimingService timing_;
  ActivitySession activity_;
  CaptureRunner captures_;
  GpuWatch gpu_watch_;
  NodeHandler nodes_;
  VerdictHandler verdicts_;
  RecordedCalls calls_;
  StallHandler stalls_;
  CrashHandler crashes_;
  DeathHandler deaths_;
  SignalHandler signals_;
  NoticeRouter router_;
  EndRecord end_record_;
  MetricsServer metrics_;
  ControlApi control_;
  Listeners listeners_;
  StatusLine status_line_;
};

}  // namespace xpurun::launcher
