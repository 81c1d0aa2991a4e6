// CaptureRunner: captures the running job, one capture at a time. `xpurun record` samples the Python stacks
// of the ranks in a process of its own. If ranks use a GPU, CUPTI records its activity meanwhile. If CUPTI
// cannot record in some rank, or the job has become slower, a trace records the timed calls of all ranks.
// Results are captures/<n>/ and traces/<m>-capture-<n>/ of the run directory. Event loop's thread only.
#pragma once

#include "common/base/os/wait_status.h"
#include "common/model/rank_set.h"
#include "launcher/capture/activity_session.h"
#include "launcher/capture/capture_budget.h"
#include "launcher/os/timer.h"
#include "launcher/spawn/helper_process.h"
#include "launcher/storage/storage.h"
#include "launcher/timing/trace_session.h"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <optional>
#include <signal.h>
#include <string>
#include <string_view>

namespace xpurun::launcher {

struct CaptureRequest {
  double seconds = 10;
  int rate = 50;         // samples a second of each process
  std::string reason;    // a word kept in the profile: "slow", "silence", "request"
  model::RankSet ranks;  // the ranks to capture; empty: all
};

inline constexpr double kLongestCaptureS = 300;
// Reasons of automatic captures.
inline constexpr std::string_view kSlowReason = "slow";
inline constexpr std::string_view kSilenceReason = "silence";

// {"duration_s":10,"steps":20,"rate":50,"ranks":"0-3"}; all optional, and `steps` goes before `duration_s`.
// `step_s` is the duration of a step, negative if unknown.
base::Result<CaptureRequest> capture_request_from(const nlohmann::json& j, double step_s);

class CaptureRunner {
 public:
  struct Parts {
    EventLoop& loop;
    Storage& storage;
    TraceSession& trace;
    ActivitySession& activity;
  };
  struct Hooks {
    std::function<void()> save_run;          // run.json, which names the ranks, to the storage
    std::function<bool()> uses_gpu;          // whether to trace the timed calls too
    std::function<void(base::Pid)> started;  // receives the helper's pid
    std::function<void()> captured = [] {};  // a capture that began by itself is over
  };
  // `dir` is relative to the run directory; `problem` is empty if there is a profile.
  using Done = std::function<void(const std::string& dir, const std::string& problem)>;

  CaptureRunner(Parts parts, std::string run_dir, sigset_t mask, int stderr_fd, Hooks hooks)
      : parts_(parts),
        run_dir_(std::move(run_dir)),
        mask_(mask),
        stderr_fd_(stderr_fd),
        hooks_(std::move(hooks)) {}
  CaptureRunner(const CaptureRunner&) = delete;
  CaptureRunner& operator=(const CaptureRunner&) = delete;

  // For tests: the command instead of our own program. The other arguments follow.
  void set_program(std::string path) { program_ = std::move(path); }
  // The directory of the capture. Fails while another one is under way. `done` may be empty; it is called
  // from the loop.
  base::Result<std::string> start(CaptureRequest request, Done done);
  // The job has become slower, or silent: starts a capture, unless one is under way or there were many. 0
  // seconds: no capture. Returns whether a capture has begun.
  bool capture_by_itself(double seconds, std::string_view reason);
  bool busy() const { return current_.has_value() || helper_.pid() > 0 || clocks_.pid() > 0; }

  // The reaper calls this. Returns whether the pid belongs to this object.
  bool helper_ended(base::Pid pid, base::WaitStatus status);

 private:
  struct Current {
    CaptureRequest request;
    std::string dir;
    Done done;
    bool recorder_begun = false;
    bool recorded = false;  // the helper has exited cleanly
    bool gpu_done = true;
    bool clocks_done = true;
  };

  void begin();
  void begin_recorder();
  bool begin_clocks();
  void begin_gpu();
  void begin_activity(double seconds);
  void activity_ended(const model::GpuCapture& result);
  void trace_calls(TraceSession::Ended ended);
  void finish_if_complete();
  void finish(const std::string& problem);

  Parts parts_;
  std::string run_dir_;
  sigset_t mask_;
  int stderr_fd_;
  Hooks hooks_;
  std::string program_ = "/proc/self/exe";
  std::optional<Current> current_;
  HelperProcess helper_;
  HelperProcess clocks_;  // reads the GPUs' clocks
  Timer deadline_{parts_.loop};
  int count_ = 0;         // of captures in this run
  CaptureBudget budget_;  // of automatic ones
};

}  // namespace xpurun::launcher
