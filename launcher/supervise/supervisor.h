// Supervisor: joins the parts: starts the command, learns of every process, watches the ranks, takes dumps,
// asks for verdicts, ends the job when told to. Single-threaded; everything happens in handlers of the loop.
#pragma once

#include "common/model/run_dir.h"
#include "launcher/collect/collector.h"
#include "launcher/collect/event_files.h"
#include "launcher/collect/trace.h"
#include "launcher/control/control_server.h"
#include "launcher/http/http_server.h"
#include "launcher/metrics/exposition.h"
#include "launcher/options/run_options.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/signals.h"
#include "launcher/output/footer.h"
#include "launcher/output/live_status.h"
#include "launcher/output/messages.h"
#include "launcher/processes/child_waits.h"
#include "launcher/processes/death_ledger.h"
#include "launcher/processes/process_table.h"
#include "launcher/relay/log_relay.h"
#include "launcher/spawn/helper_complaints.h"
#include "launcher/spawn/inherited_state.h"
#include "launcher/spawn/spare_descriptors.h"
#include "launcher/stacks/dump_job.h"
#include "launcher/storage/disk_watch.h"
#include "launcher/storage/socket_place.h"
#include "launcher/storage/storage.h"
#include "launcher/supervise/journal.h"
#include "launcher/supervise/known_dumps.h"
#include "launcher/supervise/notice_server.h"
#include "launcher/supervise/report_runner.h"
#include "launcher/supervise/shutdown.h"
#include "launcher/watch/hang_detector.h"
#include "launcher/watch/rank_watch.h"
#include "launcher/watch/unwatched_job.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

namespace xpurun::launcher {

// How the process stands between its caller and the command.
struct ProcessSetup {
  SignalInbox inbox;
  const InheritedState& inherited;
  SpareDescriptors& spares;  // free for the start of the command
  Messages& messages;
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
  // A wish for stacks. Several wishes that arrive together are served by one dump.
  struct DumpWish {
    model::DumpReason why = model::DumpReason::request;
    base::Rank trigger = base::kNoRank;
    std::vector<ControlServer::Reply> replies;
  };

  // A trace that waits for its moment or gathers.
  struct Tracing {
    Trace trace;
    std::string dir;      // relative
    bool raised = false;  // the level of timing is full for it
    bool begun = false;
    EventLoop::TimerId timer = 0;
    ControlServer::Reply when_done;
  };

  // supervisor.cpp
  base::Status open_sockets();
  base::Status start_command();
  base::Result<int> run_command();
  void arrange_logs(std::vector<std::string>& env);
  void describe_run();

  // deaths.cpp
  void reap();
  void watch_process(const TrackedProcess& p);
  // `status` is nothing where somebody else reaps the process.
  void process_died(base::Pid pid, std::optional<base::WaitStatus> status);
  void main_ended();
  void finish_when_ended();
  void finish();
  void give_up_the_disk();
  int exit_status() const;

  // watching.cpp
  void tick();
  void watch_ranks(base::MonoNs now);
  void schedule_tick();
  void discover();
  void stall_raised(base::Rank longest);
  void stall_escalated();
  // Whether a busy rank is given more than one timeout.
  bool is_doubted() const { return options_.busy_timeouts > 1; }
  void stall_cleared();

  // dumping.cpp
  void notice(const wire::Notice& notice, base::Pid pid, base::Tid tid);
  void crash_notice(const wire::Notice& notice, base::Pid pid, base::Tid tid);
  void wish_dump(DumpWish wish);
  void start_dump();
  void begin_dump(int n, bool possible);
  void dump_done(const DumpOutcome& outcome);
  void answer_wishes(size_t processes);
  std::vector<DumpTarget> dump_targets() const;
  std::vector<model::RankObservation> observations() const;
  bool dumped_since(double seconds) const;

  // verdicts.cpp
  void take_verdict(const ReportResult& result);
  void take_hang(const model::Verdict& verdict);
  void say_progress_again(const model::Incident& incident);
  void reports_done();
  void announce(const model::Verdict& verdict);
  [[nodiscard]] bool must_end_the_job(const model::Verdict& verdict) const;
  void end_the_job();
  void print_end();

  // live.cpp
  LiveStatus live_status();
  void schedule_status_line();
  void draw_status_line();
  void end_status_line();
  void stop_with_the_job();

  // control.cpp
  void signal_received(const ReceivedSignal& signal);
  void interrupt(const ReceivedSignal& signal);
  void control(const nlohmann::json& request, ControlServer::Reply reply);
  void say(const std::string& line) const;

  // timing.cpp
  enum class WhichRanks { living, all };
  void attach_notice(base::Pid pid);
  void start_metrics();
  void drain_timing();
  void finish_timing();
  // What the ledgers say together, a sentence a communicator.
  std::vector<std::string> save_timing(const std::string& path);
  NodeMetrics node_metrics(WhichRanks which);
  HttpResponse answer_http(const HttpRequest& request);
  uint32_t budget_ppm() const;

  // tracing.cpp
  void events_arrived(base::Pid pid, const RankTiming& timing, std::span<const wire::Event> events,
                      const wire::Segment& memory);
  void set_level(wire::Level level);
  base::Result<std::string> start_trace(TraceRequest request, ControlServer::Reply when_done);
  void raise_for_trace();
  void begin_trace();
  void look_after_trace();
  void end_trace(std::string_view how);
  void control_trace(const nlohmann::json& request, const ControlServer::Reply& reply);
  void control_kernel_trace(const nlohmann::json& request, const ControlServer::Reply& reply);
  void start_control_http();
  void answer_control_http(const HttpRequest& request, const HttpServer::Reply& reply);

  EventLoop& loop_;
  const RunOptions& options_;
  Storage& storage_;
  DirFacts dir_;
  SignalInbox inbox_;
  const InheritedState& inherited_;
  SpareDescriptors& spares_;
  Messages& messages_;
  HelperComplaints complaints_;
  Journal journal_;
  ProcessTable table_;
  ChildWaits child_waits_;
  DeathLedger ledger_;
  HangDetector detector_;
  UnwatchedJob unwatched_;
  NoticeServer notices_;
  ControlServer control_;
  Shutdown shutdown_;
  ReportRunner reports_;
  DiskWatch last_watch_;  // once the command has ended
  Collector collector_;
  EventFiles event_files_;
  HttpServer http_;
  bool metrics_begun_ = false;  // listening has been tried
  HttpServer control_http_;

  std::optional<LogRelay> relay_;
  Footer footer_{STDERR_FILENO};
  EventLoop::TimerId status_timer_ = 0;

  std::string host_;
  std::optional<SocketPlace> sockets_;
  std::string notice_path_;
  std::map<base::Pid, RankWatch> watches_;            // living ranks
  std::map<base::Pid, model::RankObservation> gone_;  // last word on dead ranks
  EventLoop::TimerId tick_timer_ = 0;
  base::MonoNs last_tick_ = 0;
  base::MonoNs next_tick_ = 0;
  double discovery_interval_s_ = 0;
  base::MonoNs next_discovery_ = 0;

  wire::Level level_;  // as asked for; a trace raises it
  std::optional<Tracing> tracing_;
  int traces_ = 0;
  std::string control_token_;  // empty: none is asked for

  std::vector<DumpWish> wishes_;
  std::unique_ptr<DumpJob> dump_;
  std::vector<DumpWish> serving_;  // wishes of the dump under way
  model::DumpManifest dump_manifest_;
  std::string dump_dir_;           // relative
  bool dump_begun_there_ = false;  // its directory has been made, or could not be
  EventLoop::TimerId dump_patience_ = 0;
  KnownDumps known_dumps_;
  base::MonoNs last_dump_ = 0;
  base::MonoNs dump_begun_ = 0;
  double last_dump_s_ = 0;                                        // how long it took
  std::map<base::Pid, std::pair<base::Tid, uint64_t>> crashing_;  // tid and ucontext of held processes

  base::WaitStatus main_status_;
  bool main_reaped_ = false;
  bool hung_up_ = false;  // our terminal is gone
  bool finishing_ = false;
  bool relay_finished_ = false;
  bool finished_ = false;
  base::MonoNs last_interrupt_ = 0;
  std::string announced_;                 // last sentence printed
  std::string no_report_;                 // why the last report could not be written
  std::vector<std::string> ledger_says_;  // at the time of the last dump
};

}  // namespace xpurun::launcher
