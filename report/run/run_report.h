// RunReport: the content of the report of one run, in the order of the page. Filled by build.cpp, written by
// render/.
#pragma once

#include "common/model/dump_manifest.h"
#include "common/model/run_manifest.h"
#include "common/model/verdict.h"
#include "report/run/collect.h"
#include "report/run/source_text.h"
#include "report/run/tracebacks.h"

#include <optional>
#include <string>
#include <vector>

namespace xpurun::report {

// One line of the rank table.
struct RankRow {
  base::Rank rank = base::kNoRank;
  std::string host;
  base::Pid pid = 0;
  bool culprit = false;
  std::string state;     // "stuck", "waiting: all_reduce", "dead", "running"
  std::string function;  // where its main thread was last seen
  std::string place;     // "train.py:31"
  std::string progress;  // "10 s before the dump", "at 31 s"
  std::string ending;    // "killed by SIGKILL", empty if it was alive
};

// One line of the table of nodes.
struct NodeRow {
  std::string name;
  std::string host;
  model::RankSet ranks;
  bool culprit = false;
  std::string states;  // "7 waiting: all_reduce, 1 stuck"
  model::NodeStatus status = model::NodeStatus::complete;
  std::string gap;    // what is missing
  std::string clock;  // "+0.3 ms, known to 0.1 ms"
};

// One line of the table of calls: ranks that called the same.
struct CallRow {
  model::RankSet ranks;
  bool culprit = false;
  std::string call;    // "all_reduce of 4096 float32", "not entered"
  std::string where;   // "train.py:33"
  std::string number;  // of the call on its communicator; empty if not entered
  std::string group;   // the communicator's name
  std::string stage;   // "called", "launched", "started", "done"
};

// One dump of the run; `processes` only of those other than the picked one.
struct DumpSummary {
  std::string dir;                              // relative to the run directory
  std::optional<model::DumpManifest> manifest;  // nothing if it cannot be read
  std::vector<ProcessLine> processes;
};

enum class Severity { error, warning, note, good };

// Severity, evidence and what to do next, for people; `id` for machines.
struct Finding {
  Severity severity = Severity::note;
  std::string id;  // the verdict's id, "dump.incomplete", "input.unreadable", "incident.2", "preload.off"
  std::string title;
  std::vector<std::string> evidence;
  std::string next;     // in words
  std::string command;  // to be typed, where there is one
};

// Another dump of the same run, to compare the shown one with.
struct OtherDump {
  std::string dir;
  StackForest forest;
};

// The subject of a page: a run with its verdict, or stacks from any source without a run.
enum class Subject { run, stacks };

struct RunReport {
  Subject subject = Subject::run;
  std::string dir;           // as one would type it; for commands only
  std::string culprit_log;   // file with what the first culprit wrote, as one would type it; empty: not kept
  std::string culprit_dump;  // directory with the stacks of the first culprit, as one would type it
  model::RunManifest run;
  model::Verdict verdict;
  std::string dump;  // the one that the stacks below are of, "dumps/1-hang"; empty if there is none
  std::vector<SourceExcerpt> source = {};  // the culprit's code, innermost first
  Tracebacks tracebacks = {};
  std::vector<StackClass> classes;  // smallest first
  std::vector<NodeRow> nodes;       // culprits first, then those with gaps; empty: one node
  std::vector<RankRow> ranks;       // culprits first
  std::vector<CallRow> calls;       // what the ranks called, culprits first; empty: the hang is about no call
  std::string calls_about;          // "Call 29 of group "default", 4 ranks (0-3)."
  StackForest forest;
  std::vector<OtherDump> others;  // latest first
  std::vector<DumpSummary> dumps;
  std::vector<std::string> notes;  // what could not be read
  std::vector<Finding> findings;   // most important first
  std::vector<std::string> dump_parts =
      {};  // directories of the shown dump, one for each node, as one would type them
};

// The table of calls and the line above it, from the verdict.
std::vector<CallRow> call_rows(const model::Verdict& verdict);
std::string about_calls(const model::VerdictCollective& collective);

// Nothing for a run of one node.
std::vector<NodeRow> node_rows(const model::RunManifest& run, const std::vector<RankRow>& ranks);

// Joins run manifest, observations and verdict per rank.
std::vector<RankRow> rank_rows(const model::RunManifest& run, const model::Verdict& verdict,
                               const std::optional<model::DumpManifest>& dump, const Collected& collected);

}  // namespace xpurun::report
