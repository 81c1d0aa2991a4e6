// DumpManifest: dumps/<n>-<why>/dump.json, schema "xpurun.dump/1". The dumped processes with their results,
// and the supervisor's observation of every rank at that moment. Together with the *.stacks.json files in the
// same directory, it holds everything that the diagnosis of a hang needs.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/wait_status.h"
#include "common/base/result.h"
#include "common/model/stack_snapshot.h"
#include "common/model/verdict.h"
#include "common/model/vocabulary.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kDumpSchema = "xpurun.dump/1";

// The result of one process's dump. A process without stacks is evidence, not a gap: it is listed with a
// reason.
struct DumpedProcess {
  base::Pid pid = 0;
  base::Rank rank = base::kNoRank;
  ProcessRole role = ProcessRole::other;
  DumpStatus status = DumpStatus::ok;
  std::string reason;  // empty if ok
  int64_t pause_ns = 0;
  std::string file;  // "rank-2.stacks.json"; empty if none was written
  std::string host;  // empty: the dump's host
  bool no_result =
      false;  // the helper ended, or was killed, before it reported a result; not kept in dump.json
};

// Whether a process that a rank has started makes progress, as far as visible from outside.
enum class HelperLife {
  still,
  stirring,  // it moves or uses CPU time, but so does a process that only wakes up now and then
  working,
};
template <>
inline constexpr std::array<std::string_view, 3> kNames<HelperLife> = {"still", "stirring", "working"};

// What a rank without peers waits for, if no part of the job can provide it.
enum class OutsideWait {
  none,
  input,       // standard input, or a pipe from outside the job
  connection,  // accept()
  event,       // an event loop
  signal,
  polling,   // it checks repeatedly and sleeps in between
  child,     // a program that itself sleeps
  requests,  // an event loop that listens: a server
  terminal,  // a person at the terminal of the job
};
template <>
inline constexpr std::array<std::string_view, 9> kNames<OutsideWait> = {
    "none", "input", "connection", "event", "signal", "polling", "child", "requests", "terminal"};

struct HelperObservation {
  base::Pid pid = 0;
  std::string name;  // the program's name
  bool python = false;
  bool awaited = false;      // the main thread waits for it, or for its parent
  bool reads_input = false;  // it waits in a read of its standard input
  base::Pid parent = 0;
  std::string syscall;           // what its main thread waits in, as in ThreadStack; kept for programs
  std::string syscall_file;      // without Python that are awaited
  std::string target;            //
  std::vector<base::Pid> peers;  //
  LockHolder lock;               //
  HelperLife life = HelperLife::still;
  double still_s = 0;  // seconds since it was last seen to move, or was first observed
  double cpu_share = 0;
  std::string function;  // innermost Python function of its main thread, if read
  std::string file;
  int line = 0;
};

// The watch's observation of one rank (dead ranks included).
struct RankObservation {
  base::Rank rank = base::kNoRank;
  base::Pid pid = 0;
  std::string host;
  bool alive = true;
  base::WaitStatus wait_status;  // not alive: how the rank ended
  double dead_s = 0;             // not alive: seconds since the death
  char state = '?';              // proc(5) state of the main thread
  bool has_python = false;       // the position below was read from the interpreter
  double still_s = 0;            // seconds since the main thread's position last changed
  double cpu_share = 0;         // CPU seconds per second over the last `window_s` (all threads; 1 = one core)
  double main_cpu_share = 0;    // the same of the main thread alone
  double main_queue_share = 0;  // share of the time for which the main thread waited for a CPU; 0 if unknown
  double io_bytes_per_s = 0;    // read and written, over the same window
  double window_s = 0;
  std::string function;  // innermost Python function of the main thread, if read
  std::string file;
  int line = 0;
  CodeLocation user_place;  // the line of the user's code that called that function; not in dump.json
  // The function of the user's code within which the rank moves, with the line of the last sample. Set only
  // while another rank is still.
  CodeLocation common_place;
  // Set only once the main thread has been still for half the timeout and waits for its helpers.
  HelperLife helper_life = HelperLife::still;  // of the rank's liveliest thread or process
  OutsideWait outside = OutsideWait::none;
  std::vector<HelperObservation> helpers;  // processes, most significant first
};

struct DumpManifest {
  int n = 0;  // 1, 2, ... within the run; the dump's number
  DumpReason why = DumpReason::request;
  std::string host;
  int64_t wall_ns = 0;
  double at_s = 0;  // seconds since the run began
  double hang_timeout_s = 0;
  bool escalated = false;    // a suspected stall outlasted --busy-timeouts: treat busy as stuck
  bool idle_counts = false;  // --hang-idle: a rank that waits for something outside the job counts as hung
  int64_t spread_ns = 0;     // between the first and the last process's stop
  base::Rank trigger_rank = base::kNoRank;  // crash: the rank that crashed; hang: the rank that was still
                                            // longest
  std::vector<DumpedProcess> processes;
  std::vector<RankObservation> ranks;
};

// The reason if there is one, else the name of the status.
std::string reason_or_status(const std::string& reason, DumpStatus status);

nlohmann::ordered_json to_json(const DumpManifest& d);
// An error means that the content does not match the schema; load_*() errors also name the path.
base::Result<DumpManifest> dump_manifest_from_json(const nlohmann::json& j);
base::Result<DumpManifest> load_dump_manifest(const std::string& path);

}  // namespace xpurun::model
