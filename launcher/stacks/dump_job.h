// DumpJob: takes the stacks of many processes at one moment. One xpurun-stackdump per process; all helpers
// prepare first, then all are released together, so that the stacks are comparable. The event loop drives the
// job; no function blocks. A helper that exceeds its deadline is killed; its target then runs on.
#pragma once

#include "common/model/dump_manifest.h"
#include "launcher/os/timer.h"
#include "launcher/spawn/helper_process.h"
#include "launcher/stacks/stack_dump.h"

#include <functional>
#include <memory>
#include <optional>
#include <signal.h>
#include <string>
#include <vector>

namespace xpurun::launcher {

struct DumpTarget {
  base::Pid pid = 0;
  base::Rank rank = base::kNoRank;
  int local_rank = -1;
  model::ProcessRole role = model::ProcessRole::other;
  base::Tid crash_tid = 0;  // with crash_ucontext: unwind this thread from there
  uint64_t crash_ucontext = 0;
  model::GpuStacks gpu_stacks = model::GpuStacks::never;  // --gpu-stacks of xpurun-stackdump
};

// Time after which the remaining helpers of a dump are killed.
inline constexpr double kDumpS = 20;
inline constexpr double kDumpWithDebuggersS = 80;  // gdb has 15 s and cuda-gdb 30 s

enum class DumpOrder {
  ranks_first,   // ranks first, then workers and others, a few at a time
  all_together,  // every target is stopped in the same moment
};

struct StackDumpOutcome {
  std::vector<model::DumpedProcess> processes;
  int64_t spread_ns = 0;  // between the first and the last first stop
};

struct DumpPlan {
  std::string program;    // xpurun-stackdump
  std::string directory;  // exists when start() is called
  std::string host;
  std::vector<DumpTarget> targets;
  double pause_limit_s = 0.1;  // longest stop of one process
  double prepare_s = 2;        // then the helpers that are ready are released
  double deadline_s = kDumpS;  // then the remaining helpers are killed
  sigset_t signal_mask{};
  int stderr_fd = -1;  // standard error of the helpers
  DumpOrder order = DumpOrder::ranks_first;
  bool keep_snapshots = false;              // as <key>.snapshot beside the stacks
  std::vector<std::string> helper_options;  // further options of xpurun-stackdump, as --no-stop
  // Called once if all stacks are in their files while a debugger still adds to them, which may take half a
  // minute; may be empty.
  std::function<void(const StackDumpOutcome&)> stacks_written = {};
};

class DumpJob final : public StackDump {
 public:
  using Done = std::function<void(const StackDumpOutcome&)>;
  // Called with every helper's pid, so that helpers are not counted as processes of the job.
  using HelperStarted = std::function<void(base::Pid)>;

  DumpJob(EventLoop& loop, DumpPlan request, HelperStarted started, Done done);
  ~DumpJob() override;

  void start() override;
  void give_up(const std::string& why) override;
  bool helper_ended(base::Pid pid, base::WaitStatus status) override;

 private:
  enum class Stage { waiting, preparing, ready, released, finished };
  struct Entry {
    DumpTarget target;
    HelperProcess helper;
    Stage stage = Stage::waiting;
    bool first_wave = true;
    bool output_open = false;
    bool process_open = false;
    std::string pending;
    int64_t stopped_at = 0;
    bool wrote = false;  // the stacks file is there
    bool has_result = false;
    model::DumpedProcess result;
  };

  void start_entry(Entry& e);
  std::string file_name(const Entry& e) const;
  void start_second_wave();
  // Returns whether there may be more to read at once.
  bool read_output(Entry& e);
  void close_output(Entry& e);
  void handle_line(Entry& e, std::string_view line);
  void release_if_all_ready();
  void release_ready();
  void finish_entry(Entry& e, model::DumpStatus status, std::string reason);
  void settle(Entry& e);
  void expire();
  void abandon();
  void finish_if_done();
  void all_written();
  StackDumpOutcome outcome() const;

  EventLoop& loop_;
  DumpPlan request_;
  HelperStarted started_;
  Done done_;
  std::vector<std::unique_ptr<Entry>> entries_;
  bool released_ = false;
  bool reported_ = false;
  Timer abandon_timer_{loop_};
  Timer prepare_timer_{loop_};
  Timer deadline_timer_{loop_};
  Timer written_timer_{loop_};
};

}  // namespace xpurun::launcher
