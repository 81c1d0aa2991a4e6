// Verdict: the answer of one run, for people (sentence, evidence) and for machines (verdict.json, schema
// "xpurun.verdict/1"). The values of `kind`, `level`, `state`, `confidence` and `id` are a closed vocabulary:
// docs/verdicts.md.
#pragma once

#include "common/base/result.h"
#include "common/model/rank_set.h"
#include "common/model/vocabulary.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kVerdictSchema = "xpurun.verdict/1";

struct CodeLocation {
  std::string function;  // qualified
  std::string file;      // as the interpreter has it
  int line = 0;
  std::string callee;  // the function that this line calls, e.g. "time.sleep"; empty if unknown
  std::string target;  // what that call is about: a path, "10.0.0.7:443"; empty if unknown
  // The user's own native code that this line of Python has called; empty if there is none.
  std::string native;  // function
  std::string native_file;
  int native_line = 0;

  bool empty() const { return function.empty(); }
};

// One group of ranks that wait for the culprit, with the position of the wait.
struct Waiting {
  RankSet ranks;
  std::string what;    // "all_reduce", "barrier", "store", "lock", ...
  CodeLocation where;  // call site in the user's code
};

// The calls of the ranks: one row per group of equal calls.
struct CalledBy {
  RankSet ranks;
  std::string communicator;  // name of the communicator, else its id
  uint64_t sequence = 0;     // 0: the ranks have not entered the call
  std::string op;            // all_reduce, send, ...; empty: not entered, or unknown
  std::string name;          // of the function that the program called, MPI_Ssend; empty: the operation's
  uint64_t count = 0;        // elements; 0: unknown or none
  std::string dtype;
  std::string reduce;  // sum, max, ...; empty: none or unknown
  int root = -1;       // global rank where known, else rank in the communicator; -1: none
  int peer = -1;       // send, recv: global rank where known, as for root; -1: any
  int tag = 0;         // send, recv
  RankSet holders;     // win_lock and the like: the ranks that hold the lock
  CallStage stage = CallStage::called;
  CodeLocation where;       // the program's line; empty: unknown
  std::string thread;       // of the program; empty: its main thread, or unknown
  bool in_handler = false;  // a handler of a signal made the call
  std::string group_ranks;  // new_group, split_group: the list of ranks
  std::string sizes;        // all_to_all: the sizes that do not fit, in words of the source

  bool entered() const { return sequence > 0; }
};

// The collective or message that a hang concerns.
struct VerdictCollective {
  CallSource source = CallSource::torch;
  std::string id;    // the communicator's id; empty: the verdict concerns no collective
  std::string name;  // given by the program; may be empty
  CommunicatorKind kind = CommunicatorKind::unknown;
  RankSet ranks;   // the known members
  int size = 0;    // the communicator's size, including ranks on other nodes
  std::string op;  // operation called by most ranks
  uint64_t sequence = 0;
  std::vector<CalledBy> calls;  // culprits first
  // How the culprits have departed from the routine, with which call, and instead of which.
  Departure departure = Departure::none;
  CalledBy departing;     // skipped: the call that the culprits left out
  CalledBy expected;      // not entered: unknown
  uint64_t repeated = 0;  // how often the routine was kept before; 0: no routine is known

  bool present() const { return !id.empty(); }
};

// Ranks on one host.
struct HostRanks {
  std::string host;
  RankSet ranks;
};

// The next step: in words, as a command line to type, or both.
struct NextStep {
  std::string text;
  std::string command;

  bool empty() const { return text.empty() && command.empty(); }
  // Both on one line: "check the disk: dmesg | tail".
  std::string line() const;
};

// The Python exception that ended the culprit.
struct VerdictException {
  std::string type;  // with its module; empty: none
  std::string message;
  std::string traceback;  // whole, in Python's format, with its causes; secrets masked
  std::string thread;     // Python's name
  std::string time;       // "2026-11-21T02:15:00Z"; empty if unknown

  bool present() const { return !type.empty(); }
};

// The last lines that the verdict's process wrote to standard error.
struct LogTail {
  std::string file;                // "ranks/2/stderr.log" in the run directory, or the job's own file
  std::vector<std::string> lines;  // oldest first; secrets masked
  RankSet shared;                  // ranks that share this file, if several
  std::string reason;              // why there are no lines

  bool empty() const { return file.empty() && reason.empty(); }
};

// What slowness costs, and since when: for kind slow, and for kind none what all ranks lose alike.
struct Slowness {
  SlowCause cause = SlowCause::unknown;
  double share = 0;   // of a step: what would be won without the culprits or the cause
  double lost_s = 0;  // of a step
  int64_t step = -1;  // the first slow one; negative: from the beginning
  std::string since;  // begin of that step, "2026-11-21T02:15:00Z"; empty: from the beginning, or unknown
  int64_t until_step = 0;  // the first one after it; 0: it lasted
  std::string until;       // begin of that step; empty: it lasted, or unknown

  bool present() const { return share > 0; }
};

// For a rank that ended by lack of host memory: the line that has allocated what it kept.
struct HeldMemory {
  CodeLocation where;
  int64_t bytes = 0;         // in use at the end
  int64_t grown_a_step = 0;  // bytes; 0: no growth, or the steps are not known

  bool present() const { return !where.empty(); }
};

struct Verdict {
  std::string id;  // e.g. "hang.stuck", "crash.signal", "exit.left_early"
  VerdictKind kind = VerdictKind::none;
  VerdictLevel level = VerdictLevel::none;
  RankSet ranks;                      // the culprits
  RankState state = RankState::none;  // of the first culprit
  std::string host;                   // of the first culprit
  std::vector<HostRanks> hosts;       // of the culprits; empty if only one node's data is known
  int pid = 0;                        // of the first culprit
  int signal = 0;                     // crash: signal number
  int exit_code = -1;                 // exit: code
  CodeLocation where;                 // of the first culprit
  std::vector<Waiting> waiting;
  VerdictCollective collective;
  double seconds = 0;  // how long the culprits have been in this state; for deaths, since the start
  std::string since;   // begin of that state, or the death: "2026-11-21T02:15:00Z"; empty if unknown
  std::string dump;    // "dumps/1-hang" relative to the run directory, empty if none
  Confidence confidence = Confidence::none;
  std::string sentence;  // one sentence: heading_word(), a colon and the headline
  std::string headline;  // the sentence without its first word; empty in files of older versions
  std::string title;     // who, where, since when: at most 120 columns; likewise without the kind
  std::vector<std::string> evidence;  // lines, most important first
  std::vector<std::string> details;  // more lines: those that say again what the sentence says, and C symbols
  VerdictException exception;        // for kind exception
  LogTail log_tail;                  // for a verdict about a death
  Slowness slow;                     // for kinds slow, interrupted and none
  HeldMemory memory;                 // for the end of a rank by lack of host memory
  NextStep next;
};

// The first word of the sentence: the kind, or "stall" for a suspected hang.
std::string_view heading_word(const Verdict& v);
// Sets the headline and derives the sentence. Call again after a change of kind or level.
void say(Verdict& v, std::string headline);

nlohmann::ordered_json to_json(const Verdict& v);
base::Result<Verdict> verdict_from_json(const nlohmann::json& j);

}  // namespace xpurun::model
