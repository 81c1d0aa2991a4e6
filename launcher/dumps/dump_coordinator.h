// DumpCoordinator: takes the dumps of a run, one at a time. Dump requests that arrive during a dump wait, and
// one further dump serves all of them. A crashed process is held until its dump is done. Event loop's thread
// only.
#pragma once

#include "common/model/collectives.h"
#include "common/model/dump_manifest.h"
#include "launcher/dumps/known_dumps.h"
#include "launcher/journal/journal.h"
#include "launcher/options/run_options.h"
#include "launcher/os/timer.h"
#include "launcher/processes/process_table.h"
#include "launcher/stacks/dump_job.h"
#include "launcher/storage/storage.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <signal.h>
#include <string>
#include <vector>

namespace xpurun::launcher {

struct DumpRequest {
  model::DumpReason why = model::DumpReason::request;
  base::Rank trigger = base::kNoRank;
  int stall = 0;           // hang: the number of the stall; 0: the open one
  bool escalated = false;  // hang: the stall has outlasted --busy-timeouts
  // Called when the files are on disk, or when the disk has not responded for two seconds; may be empty.
  // `dir` is relative to the run directory.
  std::function<void(const std::string& dir, size_t processes)> reply;
};

// A process held by the preload library's crash handler.
struct CrashedProcess {
  base::Pid pid = 0;
  base::Tid tid = 0;
  uint64_t ucontext = 0;  // address in the process's memory
};

class DumpCoordinator {
 public:
  // Dumps of stalls whose files are kept.
  static constexpr size_t kMostStallDumps = 100;

  struct Parts {
    EventLoop& loop;
    Storage& storage;
    Journal& journal;
    ProcessTable& table;
    const RunOptions& options;
  };
  struct Helpers {
    std::string host;
    sigset_t signal_mask{};
    int stderr_fd = -1;
  };
  struct Hooks {
    std::function<void()> discover;  // makes the table discover all processes now
    std::function<std::vector<model::RankObservation>()> observations;
    // Writes the current timing and calls into the directory, and returns the calls.
    std::function<model::CollectiveFacts(const std::string& directory)> save_calls;
    std::function<void(base::Pid)> release;  // lets a held process continue
    // Of each GPU the processes that compute on it (GpuWatch); may be empty.
    std::function<std::vector<std::vector<base::Pid>>()> gpu_processes = {};
    // The directory of a dump was created and the dump begins; may be empty.
    std::function<void(const model::DumpManifest& dump, const std::string& directory)> begun = {};
    // All stacks of the open stall's dump are written; a debugger may still add frames to them.
    std::function<void()> stacks_written;
    // After each dump. `for_stall`: this dump serves the open stall.
    std::function<void(base::MonoNs duration, bool for_stall)> dumped;
    std::function<bool()> may_go_on;  // whether to serve waiting requests
    std::function<void()> idle;       // no dump is in progress or waiting
  };
  // For tests: replacements for xpurun-stackdump.
  struct Backend {
    std::function<base::Result<std::string>()> program;
    std::function<std::unique_ptr<StackDump>(DumpPlan, DumpJob::HelperStarted, DumpJob::Done)> make;
  };

  DumpCoordinator(Parts parts, Helpers helpers, Hooks hooks);
  DumpCoordinator(Parts parts, Helpers helpers, Hooks hooks, Backend backend);
  DumpCoordinator(const DumpCoordinator&) = delete;
  DumpCoordinator& operator=(const DumpCoordinator&) = delete;

  // Starts a dump, or waits until the current dump has ended.
  void request(DumpRequest request);
  // From now on, dumps of a hang hold the latest observations only: the processes are ending, and their
  // stacks would show that.
  void leave_out_stacks() { without_stacks_ = true; }
  // Like request(), but also accepts a dump in progress, or one that ended within the last `seconds`.
  void request_or_share(DumpRequest request, double seconds);
  // Requests a dump and holds the process for it. If the last dump is so fresh that another dump would show
  // the same, returns the fresh dump's directory instead: a crash during a cascade of crashes, or SIGTERM.
  std::optional<std::string> request_for_crash(const CrashedProcess& crashed, DumpRequest request);
  // The process has ended, so there is nothing to release.
  void process_ended(base::Pid pid) { crashed_.erase(pid); }

  bool busy() const { return dump_ != nullptr; }
  // Whether a dump is in progress, is waiting, or ended within the last `seconds`.
  bool dumped_within(double seconds) const;
  double last_duration_s() const { return last_duration_s_; }  // 0: no dump yet

  // Replaces the observations of a stall's dump by the current ones; the stacks stay. `escalated`: the stall
  // has outlasted --busy-timeouts. False if the dump is not in memory any more, or is still in progress.
  bool look_again(const std::string& dir, bool escalated);
  // The verdict from the dumps in memory, without stacks.
  model::Verdict diagnose() { return known_.diagnose(parts_.journal.manifest()); }

  // Ends the dump in progress without the missing stacks; `why` is their reason.
  void give_up(const std::string& why);
  // Call for every reaped child. True if the pid was a dump helper.
  bool helper_ended(base::Pid pid, base::WaitStatus status);

 private:
  void start();
  double stillness_s(const std::vector<DumpRequest>& requests);
  DumpPlan plan(const std::string& directory);
  bool ask_gpus(std::vector<DumpTarget>& targets) const;
  std::vector<DumpTarget> targets() const;
  void begin(int n, bool possible);
  void begin_if_ready();
  void record(const StackDumpOutcome& outcome);
  void stacks_written(const StackDumpOutcome& outcome);
  void done(const StackDumpOutcome& outcome);
  void release_crashed();
  bool is_fresh_for(model::DumpReason why) const;
  // A job that stalls again and again must not fill the disk.
  void remove_old_stalls();
  // Whether the dump serves a stall that is still open.
  bool assign_to_stall();
  // The first waiting request and all others that the same dump can serve.
  std::vector<DumpRequest> take_waiting();
  void reply_to_served();
  void write_manifest(const std::string& dir, const model::DumpManifest& manifest);

  Parts parts_;
  Helpers helpers_;
  Hooks hooks_;
  Backend backend_;
  std::vector<DumpRequest> waiting_;
  std::vector<DumpRequest> served_;  // requests served by the current dump
  std::unique_ptr<StackDump> dump_;
  model::DumpManifest manifest_;  // of the current or the last dump
  std::string dir_;               // the same dump's directory, relative to the run directory
  std::optional<bool> possible_;  // its directory was created; empty: not known yet
  bool begun_ = false;
  bool without_stacks_ = false;
  Timer patience_{parts_.loop};
  base::MonoNs started_ = 0;
  base::MonoNs ended_ = 0;  // end of the last dump; 0: no dump yet
  double last_duration_s_ = 0;
  KnownDumps known_;
  struct Held {
    CrashedProcess process;
    int dump = 0;  // the process is released when the dump of this number has ended
  };
  std::map<base::Pid, Held> crashed_;
  std::vector<std::string> of_stalls_;  // directories of the kept dumps of stalls, the oldest first
  model::CollectiveFacts calls_;        // recorded at the dump under way or the last one
};

}  // namespace xpurun::launcher
