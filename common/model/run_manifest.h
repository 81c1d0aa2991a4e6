// RunManifest: run.json, schema "xpurun.run/1". The supervisor rewrites it atomically after every change, so
// that it is always up to date. report/ reads it together with dumps/.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/wait_status.h"
#include "common/base/result.h"
#include "common/model/exception.h"
#include "common/model/rank_set.h"
#include "common/model/verdict.h"
#include "common/model/vocabulary.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kRunSchema = "xpurun.run/1";

// One node of a job whose runs were combined (report/nodes).
struct RunNode {
  std::string name;
  std::string host;
  int node_rank = -1;
  RankSet ranks;  // on this node, or expected on it
  NodeStatus status = NodeStatus::complete;
  bool answered = true;  // its run.json was received
  RunOutcome outcome = RunOutcome::running;
  std::string gap;  // the missing data: "no answer from node h17 for 20 s"; empty if complete
  base::Pid supervisor_pid = 0;
  base::Pid main_pid = 0;
  double offset_s = 0;       // the node's clock minus this node's clock, in seconds
  double uncertainty_s = 0;  // of its times after conversion to this node's clock, in seconds
  bool clock_known = true;   // false: offset_s is a guess
};

// How a process ended, as far as known.
struct Death {
  bool happened = false;
  int order = 0;    // 1 = first death of the run among recorded processes
  double at_s = 0;  // seconds since the run began
  base::WaitStatus wait_status;
  std::string cause_hint;  // "ended by xpurun", "ended by the launcher", "SIGTERM from pid N"; empty if the
                           // process ended by itself
  bool follower = false;   // explained by an earlier event; never the root cause
};

// A fatal signal that the preload library's handler reported before the process died.
struct CrashNotice {
  base::Pid pid = 0;
  base::Tid tid = 0;
  base::Rank rank = base::kNoRank;
  int signal = 0;
  int code = 0;                 // si_code
  uint64_t address = 0;         // si_addr of synchronous signals
  bool stack_overflow = false;  // SIGSEGV at the end of the thread's stack
  base::Pid sender = 0;         // si_pid of signals sent by a process
  double at_s = 0;
  std::string dump;  // "dumps/1-crash"
  size_t node = 0;   // index into RunManifest::nodes; not kept
};

// The kind of file behind a process's descriptor 2.
enum class StreamKind {
  unknown,
  file,
  pipe,  // or a socket
  terminal,
  other,  // /dev/null, or a removed file
};
template <>
inline constexpr std::array<std::string_view, 5> kNames<StreamKind> = {"unknown", "file", "pipe", "terminal",
                                                                       "other"};

struct ErrorStream {
  StreamKind kind = StreamKind::unknown;
  std::string path;  // set for a file
  int64_t end = -1;  // set for a file: end of the data written until the process ended; -1: unknown

  bool empty() const { return kind == StreamKind::unknown; }
};

// A time in which a rank made no progress.
struct StillTime {
  double from_s = 0;  // the last progress before
  double to_s = 0;    // the first progress after
};

// A process that a rank had started, and that Python's multiprocessing has found dead.
struct HelperDeath {
  base::Pid pid = 0;
  base::Pid parent = 0;
  base::Rank rank = base::kNoRank;  // of the parent
  std::string name;                 // multiprocessing's: "ForkPoolWorker-2"
  base::WaitStatus status;
  std::string
      lost;  // items of a map() of a pool whose results will never come: "5", "4-7"; empty: none known
  int64_t items = 0;  // of that map()
  double at_s = 0;    // when its parent noticed
  size_t node = 0;    // index into RunManifest::nodes; not kept
};

// The memory control group of the job, as of the latest death of a rank.
struct MemoryGroup {
  std::string path;         // "/sys/fs/cgroup/job_4242"; empty: none is known
  int64_t oom_kills = 0;    // since the run began
  int64_t limit_bytes = 0;  // 0: none
  int64_t used_bytes = 0;

  bool empty() const { return path.empty(); }
};

// Memory that a rank, or its helper processes, took and kept, as of the latest sample.
struct MemoryGrowth {
  int64_t from_bytes = 0;  // private memory of both; 0: it does not grow
  int64_t to_bytes = 0;
  int64_t helpers_bytes = 0;  // the part of the growth that is in helpers
  double since_s = 0;         // seconds since the run began
  double until_s = 0;
  uint64_t since_step = 0;  // steps of the rank at these times; both 0: unknown
  uint64_t until_step = 0;

  bool empty() const { return to_bytes <= from_bytes; }
};

// GPU memory of a rank by PyTorch's allocator, as of its latest sample.
struct GpuMemoryUse {
  int64_t allocated_bytes = 0;
  int64_t peak_bytes = 0;   // most that was allocated
  int64_t total_bytes = 0;  // of the device; 0: unknown, then the others too
  MemoryGrowth growth;      // of the allocated bytes, at the ends of stages

  bool empty() const { return total_bytes <= 0; }
};

struct ProcessRecord {
  base::Pid pid = 0;
  base::Pid ppid = 0;
  uint64_t start_ticks = 0;
  ProcessRole role = ProcessRole::other;
  base::Rank rank = base::kNoRank;  // own rank; workers have their parent's
  int local_rank = -1;
  RankSource identity = RankSource::none;
  std::string comm;
  std::vector<std::string> cmdline;  // redacted
  bool python = false;
  bool preload = false;  // the preload library is mapped
  double seen_s = 0;     // first observation, in seconds since the run began
  // Last known position of the main thread, for ranks.
  std::string function;
  std::string file;
  int line = 0;
  CodeLocation place;  // the line of the user's code that called that function
  double last_progress_s = 0;
  int64_t rss_bytes = 0;         // of a rank and its latest sample: memory that is in RAM
  MemoryGrowth growth;           // of a rank
  GpuMemoryUse gpu_memory;       // of a rank
  std::vector<StillTime> still;  // of a rank, the longest ones, in order
  ErrorStream error_stream;
  std::string error_file;  // torchelastic's error file, which torch writes when the rank's main function
                           // raises
  Death death;
  bool left = false;  // a rank that was alive when the command had ended
  size_t node = 0;    // index into RunManifest::nodes; not kept
};

// The process is a launcher that waits for the launchers of other nodes, by its last known position.
bool waits_for_nodes(const ProcessRecord& process);
// The number of nodes that torchrun is told to wait for, as it stands in its arguments: "2", "1:4"; empty:
// unknown.
std::string nodes_wanted(const ProcessRecord& process);

// One stall: raised when a rank has been still for the timeout, cleared when progress resumes.
struct Stall {
  int n = 0;
  RankSet ranks;  // that wait for each other; empty if not known (another node has found the stall)
  double at_s = 0;
  double since_s = -1;    // when the progress ended; -1: not known
  double verdict_s = -1;  // when the verdict was reached, or its id or level last changed; -1: not yet
  double cleared_s = -1;  // -1: not cleared
  bool early = false;     // found before the hang timeout, because no step ended; at most suspected
  HangAction action = HangAction::none;
  double restarted_s = -1;  // when the launcher had restarted the ranks; -1: not restarted
  std::string dump;         // "dumps/1-hang"
  double asked_s = 0;       // when a judgement was last asked for
  bool pending = false;     // no verdict has come since then
  Verdict verdict;
};

struct DumpRecord {
  int n = 0;
  DumpReason why = DumpReason::request;
  std::string dir;  // relative to the run directory
  double at_s = 0;
};

// One execution of the --on-event command.
struct EventCommand {
  JobEventKind event = JobEventKind::end;
  double at_s = 0;     // time of the event
  double seconds = 0;  // duration of the command
  ProgramStatus status = ProgramStatus::ok;
  std::string reason;  // reason of a failure; empty if ok
};

// The result of one plug-in function for one exception or crash.
struct PluginResult {
  std::string file;
  std::string function;  // empty: the whole plug-in failed
  base::Rank rank = base::kNoRank;
  ProgramStatus status = ProgramStatus::ok;
  std::string text;  // the function's return value or output, or the reason of a failure
};

// The job became slower while it ran.
struct Slowdown {
  double at_s = 0;      // when it was certain
  int64_t step = 0;     // the first slow step, counted from the first one that was seen
  int64_t wall_ns = 0;  // begin of that step; 0: unknown
  double before_s = 0;  // median step
  double after_s = 0;   // median step
  double share = 0;     // 0.23: 23 % slower
  // The steps became as fast as before; -1: not seen.
  double cleared_s = -1;      // when it was certain
  int64_t cleared_step = -1;  // the first fast step
};

// The others waited for a rank while the job ran.
struct AwaitedRank {
  base::Rank rank = base::kNoRank;
  double at_s = 0;        // when it was certain
  double share = 0;       // of the time, for which the others waited
  double cleared_s = -1;  // it was over, or chance; -1: not seen
};

// One option with a value from outside, and the source of the value.
struct OptionOrigin {
  std::string name;    // "hang-timeout"
  std::string value;   // as the user wrote it
  std::string source;  // "command line", "XPURUN_HANG_TIMEOUT", or the path of a configuration file
  std::string typed;   // as one word of a command line, "--hang-timeout=5"; empty: it came from elsewhere
};

// A rank of another node without progress, as that node has last reported it.
struct StillElsewhere {
  base::Rank rank = base::kNoRank;
  std::string host;
  double still_s = 0;
  std::string where;  // "train.py:12 forward"; may be empty
};

// The first SIGINT, SIGTERM or SIGHUP that xpurun has received.
struct Interrupt {
  int signal = 0;                              // 0: none
  bool from_terminal = false;                  // Ctrl-C, or the terminal was closed
  double at_s = -1;                            // seconds since the run began; -1: not known
  std::vector<StillElsewhere> elsewhere = {};  // then; the longest still ones first
};

struct RunManifest {
  std::string version;  // xpurun's version
  std::string id;
  std::string host;
  int64_t started_wall_ns = 0;
  double elapsed_s = 0;              // seconds until the end, or until this file was written
  std::vector<std::string> command;  // redacted
  std::string cwd;
  std::map<std::string, std::string> env;  // variables with kept values (kept_environment.h); redacted
  std::vector<std::string> env_names;      // names of all other variables
  std::vector<OptionOrigin> options;       // options with non-default values
  base::Pid supervisor_pid = 0;
  base::Pid main_pid = 0;
  double hang_timeout_s = 0;
  std::string preload_path;
  std::string preload_reason;  // why it is off or could not reach the main program; empty if on
  std::string python_reason;   // why Python's bootstrap is off; empty if on
  int world_size = 0;          // 0: unknown
  RunOutcome outcome = RunOutcome::running;
  base::WaitStatus child_status;  // the command's; unknown while it runs
  Interrupt interrupt;
  bool judged_now = false;  // the user has asked where the job stands
  bool attached = false;    // xpurun has not started the job: of what was before, it knows nothing
  int exit_status = -1;     // xpurun's own
  std::string control;      // path of the control socket
  std::string control_url;  // control over HTTP; empty if nothing listens
  std::string metrics;      // URL of /metrics; empty if nothing listens
  std::vector<ProcessRecord> processes;
  std::vector<CrashNotice> crashes;
  std::vector<PythonException> exceptions;  // in order of arrival
  std::vector<HelperDeath> helper_deaths;   // in order of arrival
  MemoryGroup memory;
  std::vector<Stall> stalls;
  std::vector<DumpRecord> dumps;
  std::vector<Slowdown> slowdowns;
  std::vector<AwaitedRank> awaited_ranks;
  std::vector<EventCommand> event_commands;
  std::vector<PluginResult> plugins;
  Verdict verdict;
  // Where the report of all nodes is, if another node has made it and the verdict: its host, and its run
  // directory there. Empty: `verdict` is of this run directory.
  std::string job_report_host;
  std::string job_report_dir;
  // Only for a job whose runs were combined: its nodes, this node first. Not kept in run.json.
  std::vector<RunNode> nodes;
};

// The last progress of the process. A rank that moved again only because xpurun or its user ended the job
// made its last progress before that stall.
double progress_before_end_s(const RunManifest& run, const ProcessRecord& process);
// The open stall that a judgement is due for; else the one with a confirmed verdict; else the one that was
// asked about last. Null if no stall is open.
const Stall* current_stall(const RunManifest& run);
// Stalls with a confirmed verdict, including open ones.
int confirmed_hangs(const RunManifest& run);
// Parses one line of the plug-in driver's output, a JSON object; empty if the text is anything else.
std::optional<PluginResult> plugin_result_from_line(std::string_view line);

// Parses a message of Python's bootstrap, {"schema":"xpurun.helper/1","pid":4711,"name":"ForkPoolWorker-2",
// "code":-9}; empty if the text is anything else. A negative code is that of a signal.
std::optional<HelperDeath> helper_death_from_message(std::string_view json);

// The host of a process, by its `node` index.
const std::string& host_of(const RunManifest& run, size_t node);

nlohmann::ordered_json to_json(const RunManifest& r);
// An error means that the content does not match the schema; load_*() errors also name the path.
base::Result<RunManifest> run_manifest_from_json(const nlohmann::json& j);
base::Result<RunManifest> load_run_manifest(const std::string& path);

// Python ranks that ran without the preload library, although the command was started with it: a script of
// the job has replaced LD_PRELOAD or the whole environment.
RankSet ranks_without_preload(const RunManifest& run);

}  // namespace xpurun::model
