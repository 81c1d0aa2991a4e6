// RunOptions: the request of `xpurun run`, after flags, environment and configuration files were combined.
// Plain data; launcher/options fills it, launcher/supervise acts on it. The defaults of the options are in
// option_table.cpp only; default_run_options() has them as values.
#pragma once

#include "common/base/ids.h"
#include "common/base/language.h"
#include "common/model/run_manifest.h"
#include "common/model/timing/peaks.h"
#include "launcher/options/values/timeline_specs.h"
#include "launcher/spawn/environment.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace xpurun::launcher {

// Seconds of a wait that never ends ("none" on the command line): thirty years. Not infinity, because the
// value is added to clocks and given to timers like any other.
inline constexpr double kForever = 1e9;

enum class OnHang {
  report,   // dump, report, continue to watch
  kill,     // dump, report, TERM, grace, KILL the job's processes; exit status 124
  restart,  // dump, report, end the ranks, so that their launcher restarts them; kill if it would not
};

// The events that --on-event reports.
using JobEventKinds = std::set<model::JobEventKind>;

enum class ShowStatus {
  automatic,  // on a terminal, for jobs of several ranks
  always,     // on a terminal
  never,
};

enum class Timing { off, light, full };

inline constexpr int kMetricsPort = 18889;
inline constexpr int kControlPort = 18888;
inline constexpr int kNoPort = -1;

// How to join the other nodes of the job.
struct NodeOptions {
  std::string url;    // of the NATS server, "auto" or "off"
  std::string token;  // a secret
  std::string user;
  std::string password;  // a secret
  std::string creds;     // files
  std::string ca;
  std::string cert;
  std::string key;
  std::string secret_file;
  bool collect_all = false;
  int nodes = 0;       // 0: from the launcher's variables
  int node_rank = -1;  // -1: from the launcher's variables

  bool wanted() const { return url != "off"; }
  bool automatic() const { return url == "auto"; }
};

// The file for the verdict that Kubernetes shows.
struct TerminationLog {
  bool automatic = false;  // inside Kubernetes its own file, else none
  std::string file;        // otherwise; empty: none

  std::string path(bool in_kubernetes) const {
    return !automatic ? file : in_kubernetes ? "/dev/termination-log" : "";
  }
};

struct RunOptions {
  std::vector<std::string> command;  // argv of the child, byte for byte; never empty when run_job is called
  // Processes that already run, watched with their descendants instead of starting `command`, which then
  // holds the arguments of the first of them.
  std::vector<base::Pid> attach_to;
  bool judge_now = false;  // with attach_to: one verdict after a second, then the end

  bool attaches() const { return !attach_to.empty(); }

  // Watching
  double hang_timeout_s = 0;  // a rank still for this long is a hang; 0: no hang detection
  int busy_timeouts = 0;      // a rank that may be working counts as stuck after this many timeouts; 0: never
  OnHang on_hang = OnHang::report;
  double proof_grace_s = 10;  // a hang that is proved before the timeout is acted on after this time
  int max_hangs = 1;          // OnHang::restart: after this many hangs, the next hang ends the job
  bool hang_idle = false;     // a rank that waits for an event outside the job hangs too
  double poll_s = 0;          // seconds between two polls; 0: chosen from the hang timeout
  int dump_signal = 0;        // signal to xpurun that dumps every rank instead of being forwarded; 0: none

  // Dumps and ends
  double dump_deadline_s = 0;                                 // longest stop of one process for its stacks
  model::GpuStacks gpu_stacks = model::GpuStacks::automatic;  // on a hang, ask cuda-gdb
  double evidence_timeout_s = 0;  // for all evidence beside the stacks; 0: none is collected
  bool flight_recorder = false;   // switch PyTorch's Flight Recorder on in the ranks
  double crash_wait_s = 0;        // longest wait of a crashing process for its dump; 0: does not wait
  double grace_s = 0;             // between TERM and KILL when the job is ended; kForever: never KILL

  // Programs of the user
  std::string on_event;  // command line for /bin/sh, run for each event; empty: none
  JobEventKinds on_event_kinds;
  double event_limit_s = 0;  // for each of these programs
  std::string plugins;       // files of exit plug-ins, with commas

  // The run directory
  std::string out_dir;   // exactly this directory; empty: a new one below runs_dir
  std::string runs_dir;  // parent of the run directories and of `latest`
  std::string name;      // of the run; empty: from the command
  TerminationLog termination_log;
  bool report = false;            // build report.html and stacks/ at the end and on every dump
  bool source = true;             // the report shows source lines
  bool share_with_group = false;  // the report, the verdict and stacks/

  // Output
  bool logs = false;    // ranks write to ranks/<rank>/stdout.log and stderr.log, and xpurun repeats it
  bool prefix = false;  // put the rank in front of repeated lines; implies logs
  ShowStatus status = ShowStatus::automatic;
  base::Language language = base::Language::english;  // of what people read
  int verbosity = 0;                                  // -1 quiet (errors only), 0, 1 (-v), 2 (-vv)

  // The library in the training processes
  bool preload = false;
  std::string preload_path;       // empty: the one that belongs to this xpurun
  bool python_hooks = true;       // in Python processes: report exceptions and torch.distributed's calls
  std::string trace_python;       // functions of Python whose calls are timed, with commas; empty: none
  double trace_python_min_s = 0;  // shorter calls are summed up

  // Timing
  Timing timing = Timing::light;
  bool samples_memory = true;  // of ranks: who has allocated the host memory
  NcclProfiler nccl_profiler = NcclProfiler::automatic;
  double overhead_budget = 0;  // most of a thread's time that light timing may cost
  double slow_threshold = 0;   // report steps that take this much longer, as a share; 0: never
  double slow_capture_s = 0;   // length of a capture when the job has become slower; 0: none, or in steps
  int slow_capture_steps = 0;  // its length in steps; 0: given in seconds
  model::Peaks peaks;          // what devices can do
  int metrics_port = 0;        // 0: kMetricsPort, once a rank is known; kNoPort: no /metrics at all

  std::vector<TimelineSpec> timelines;  // traces that are made without a request

  bool shape_metrics = false;  // the older atorch_* names too, one family a shape
  uint64_t event_bytes = 0;    // of each rank's event files; 0: no event and span files
  // Of each rank's span files, in addition: a rank has few spans for each event of a GPU.
  uint64_t span_bytes() const {
    return event_bytes == 0 ? 0 : std::max(event_bytes / 8, uint64_t{128} << 10);
  }

  // Of each rank's files with the calls of traced functions, in addition.
  uint64_t function_bytes() const { return event_bytes / 2; }

  // Control over HTTP, beside the socket in the run directory
  int control_port = kNoPort;  // 0: kControlPort
  bool control_token = false;  // asked for

  NodeOptions nodes;

  std::vector<model::OptionOrigin> origins;  // every option that is not at its default
};

}  // namespace xpurun::launcher
