// RunManifest: run.json, schema "xpurun.run/1". Written atomically by the supervisor whenever something
// changed, so that it is true at any instant. report/ reads it together with dumps/.
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

// One node of a job whose runs were put together (report/nodes).
struct RunNode {
  std::string name;
  std::string host;
  int node_rank = -1;
  RankSet ranks;  // on this node, or expected there
  NodeStatus status = NodeStatus::complete;
  bool answered = true;  // its run.json is here
  RunOutcome outcome = RunOutcome::running;
  std::string gap;  // what is missing: "no answer from node h17 for 20 s"; empty: nothing
  base::Pid supervisor_pid = 0;
  base::Pid main_pid = 0;
  double offset_s = 0;       // its clock minus the clock of this node
  double uncertainty_s = 0;  // of its times, once moved onto the clock of this node
  bool clock_known = true;   // false: offset_s is a guess
};

// How a process ended, as far as it could be learned.
struct Death {
  bool happened = false;
  int order = 0;    // 1 = first death of the run among recorded processes
  double at_s = 0;  // seconds since the run began
  base::WaitStatus wait_status;
  std::string
      cause_hint;         // "ended by xpurun", "ended by the launcher (SIGTERM from pid N)", empty if its own
  bool follower = false;  // explained by an earlier event; never the root cause
};

// A fatal signal that the preload's handler reported before the process died.
struct CrashNotice {
  base::Pid pid = 0;
  base::Tid tid = 0;
  base::Rank rank = base::kNoRank;
  int signal = 0;
  int code = 0;          // si_code
  uint64_t address = 0;  // si_addr of synchronous signals
  base::Pid sender = 0;  // si_pid of signals sent by a process
  double at_s = 0;
  std::string dump;  // "dumps/1-crash"
  size_t node = 0;   // in RunManifest::nodes; not kept
};

// What a process's descriptor 2 is.
enum class StreamKind {
  unknown,
  file,
  pipe,  // or a socket
  terminal,
  other,  // /dev/null, a file that was removed
};
template <>
inline constexpr std::array<std::string_view, 5> kNames<StreamKind> = {"unknown", "file", "pipe", "terminal",
                                                                       "other"};

struct ErrorStream {
  StreamKind kind = StreamKind::unknown;
  std::string path;  // of a file
  int64_t end = -1;  // of a file: offset behind what had been written when the process ended; -1: unknown

  bool empty() const { return kind == StreamKind::unknown; }
};

struct ProcessRecord {
  base::Pid pid = 0;
  base::Pid ppid = 0;
  uint64_t start_ticks = 0;
  ProcessRole role = ProcessRole::other;
  base::Rank rank = base::kNoRank;  // own rank; workers carry their parent's
  int local_rank = -1;
  std::string identity;  // "torchrun", "RANK", "slurm", "openmpi", "pmi", "spawned", "single", empty
  std::string comm;
  std::vector<std::string> cmdline;  // redacted
  bool python = false;
  bool preload = false;  // our library is mapped
  double seen_s = 0;     // seconds since the run began
  // Last known place of the main thread, for ranks.
  std::string function;
  std::string file;
  int line = 0;
  double last_progress_s = 0;
  ErrorStream error_stream;
  std::string error_file;  // torchelastic's, which torch writes when the rank's main function raises
  Death death;
  size_t node = 0;  // in RunManifest::nodes; not kept
};

// One stall: raised when a rank was still for the timeout, cleared when progress resumed.
struct Incident {
  int n = 0;
  double at_s = 0;
  double verdict_s = -1;  // when the verdict was found, or its id or level last changed; -1: not yet
  double cleared_s = -1;  // -1: not cleared
  HangAction action = HangAction::none;
  double restarted_s = -1;  // when the launcher had started the ranks again; -1: not
  std::string dump;         // "dumps/1-hang"
  Verdict verdict;
};

struct DumpRecord {
  int n = 0;
  DumpReason why = DumpReason::request;
  std::string dir;  // relative to the run directory
  double at_s = 0;
};

// One run of the command of --on-event.
struct EventCommand {
  JobEventKind event = JobEventKind::end;
  double at_s = 0;     // of the event
  double seconds = 0;  // how long the command ran
  ProgramStatus status = ProgramStatus::ok;
  std::string reason;  // of a failure; empty if ok
};

// What one function of a plug-in made of one exception or crash.
struct PluginResult {
  std::string file;
  std::string function;  // empty: the plug-in as a whole failed
  base::Rank rank = base::kNoRank;
  ProgramStatus status = ProgramStatus::ok;
  std::string text;  // what the function returned or printed, or the reason of a failure
};

// One option that was set somewhere, and where.
struct OptionOrigin {
  std::string name;    // "hang-timeout"
  std::string value;   // as written
  std::string source;  // "command line", "XPURUN_HANG_TIMEOUT", or the path of a configuration file
  std::string typed;   // as one word of a command line, "--hang-timeout=5"; empty: it came from elsewhere
};

struct RunManifest {
  std::string version;  // of xpurun
  std::string id;
  std::string host;
  int64_t started_wall_ns = 0;
  double elapsed_s = 0;              // until the end, or until this was written
  std::vector<std::string> command;  // redacted
  std::string cwd;
  std::map<std::string, std::string>
      env;  // of the variables whose values are kept (kept_environment.h); redacted
  std::vector<std::string> env_names;  // all other variables that were set
  std::vector<OptionOrigin> options;   // those that are not at their default
  base::Pid supervisor_pid = 0;
  base::Pid main_pid = 0;
  double hang_timeout_s = 0;
  std::string preload_path;
  std::string preload_reason;  // why it is off or could not reach the main program; empty if it is on
  std::string python_reason;   // why Python's bootstrap is off; empty if it is on
  int world_size = 0;          // 0 unknown
  RunOutcome outcome = RunOutcome::running;
  base::WaitStatus child_status;  // of the command; unknown while it runs
  int exit_status = -1;           // what xpurun returned
  std::string control;            // path of the control socket
  std::string control_url;        // the same over HTTP; empty if nothing listened
  std::string metrics;            // URL of /metrics; empty if nothing listened
  std::vector<ProcessRecord> processes;
  std::vector<CrashNotice> crashes;
  std::vector<PythonException> exceptions;  // in the order in which they arrived
  std::vector<Incident> incidents;
  std::vector<DumpRecord> dumps;
  std::vector<EventCommand> event_commands;
  std::vector<PluginResult> plugins;
  Verdict verdict;
  // Of a job whose runs were put together, this node first; empty: this node alone. Not kept in run.json.
  std::vector<RunNode> nodes;
};

// Stalls of the run with a confirmed verdict, the open one included.
int confirmed_hangs(const RunManifest& run);
// One result as the driver of the plug-ins prints it, a JSON object; nothing if the text is something else.
std::optional<PluginResult> plugin_result_from_line(std::string_view line);

// The host of a process of the run, by its `node`.
const std::string& host_of(const RunManifest& run, size_t node);

nlohmann::ordered_json to_json(const RunManifest& r);
base::Result<RunManifest> run_manifest_from_json(const nlohmann::json& j);
base::Result<RunManifest> load_run_manifest(const std::string& path);

}  // namespace xpurun::model
