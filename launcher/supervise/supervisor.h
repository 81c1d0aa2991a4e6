// Supervisor: joins the parts that start the command, watch the ranks, take dumps, judge and end the job. The
// parts own the state; what passes from one part to another passes through the hooks that are set here, and
// inside of Measurement and Judgement. Single-threaded; everything happens in handlers of the loop.
#pragma once

#include "launcher/control/notice_server.h"
#include "launcher/dumps/dump_coordinator.h"
#include "launcher/dumps/native_looks.h"
#include "launcher/ending/helper_list.h"
#include "launcher/ending/job_ending.h"
#include "launcher/ending/reaper.h"
#include "launcher/journal/journal.h"
#include "launcher/notify/notifier.h"
#include "launcher/options/run_options.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/signals.h"
#include "launcher/output/messages.h"
#include "launcher/processes/process_table.h"
#include "launcher/spawn/helper_complaints.h"
#include "launcher/storage/storage.h"
#include "launcher/supervise/control_api.h"
#include "launcher/supervise/handlers/crash_handler.h"
#include "launcher/supervise/handlers/death_handler.h"
#include "launcher/supervise/handlers/end_record.h"
#include "launcher/supervise/handlers/notice_router.h"
#include "launcher/supervise/handlers/signal_handler.h"
#include "launcher/supervise/job_start.h"
#include "launcher/supervise/judgement.h"
#include "launcher/supervise/listeners.h"
#include "launcher/supervise/measurement.h"
#include "launcher/supervise/reporting/status_display.h"
#include "launcher/watch/watcher.h"

#include <functional>
#include <string>

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
  Measurement::Hooks measurement_hooks();
  Judgement::Hooks judgement_hooks();
  CrashHandler::Hooks crash_hooks();
  DeathHandler::Hooks death_hooks();
  SignalHandler::Hooks signal_hooks();
  NoticeRouter::Hooks notice_hooks();
  EndRecord::Hooks end_record_hooks();
  ControlApi::Hooks control_hooks();

  base::Result<int> run_command();
  // Of a job that xpurun has not started: one look, one dump, one verdict.
  void judge_now();
  void judge_after_looks(double left_s);
  LiveStatus live_status();
  std::function<void(const std::string&)> say();

  EventLoop& loop_;
  const RunOptions& options_;
  Storage& storage_;
  DirFacts dir_;
  SignalInbox inbox_;
  Messages& messages_;
  std::string host_;

  HelperComplaints complaints_;
  Journal journal_;
  ProcessTable table_;
  HelperList helpers_;
  JobLogs logs_;
  NoticeServer notices_;
  Reaper reaper_;
  JobEnding ending_;
  Watcher watcher_;
  Notifier notifier_;
  DumpCoordinator dumps_;
  NativeLooks looks_;
  Measurement measurement_;
  Judgement judgement_;
  CrashHandler crashes_;
  DeathHandler deaths_;
  SignalHandler signals_;
  NoticeRouter router_;
  EndRecord end_record_;
  ControlApi control_;
  Listeners listeners_;
  JobStart start_;
  StatusDisplay display_;
};

}  // namespace xpurun::launcher
