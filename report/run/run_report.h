// RunReport: the content of one run's report, in the order of the page. build.cpp fills it, render/ writes
// it.
#pragma once

#include "common/base/tr.h"
#include "common/model/dump_manifest.h"
#include "common/model/evidence/gpu_health.h"
#include "common/model/evidence/gpu_state.h"
#include "common/model/evidence/kernel_events.h"
#include "common/model/evidence/machine.h"
#include "common/model/memory/memory_look.h"
#include "common/model/names.h"
#include "common/model/run_manifest.h"
#include "common/model/speed/pipeline.h"
#include "common/model/timing/speed_report.h"
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
  std::string function;  // last observed function of the main thread
  std::string place;     // "train.py:31"
  std::string progress;  // "10 s before the dump", "at 31 s"
  std::string ending;    // "killed by SIGKILL"; empty if alive
};

// One line of the table of nodes.
struct NodeRow {
  std::string name;
  std::string host;
  model::RankSet ranks;
  bool culprit = false;
  std::string states;  // "7 waiting: all_reduce, 1 stuck"
  model::NodeStatus status = model::NodeStatus::complete;
  std::string gap;    // the missing data
  std::string clock;  // "+0.3 ms, known to 0.1 ms"
};

// One row of the table of calls: ranks with equal calls.
struct CallRow {
  model::RankSet ranks;
  bool culprit = false;
  std::string call;    // "all_reduce of 4096 float32", "not entered"
  std::string where;   // "train.py:33"
  std::string number;  // sequence number of the call; empty if not entered
  std::string group;   // the communicator's name
  std::string stage;   // "called", "launched", "started", "done"
};

// One dump of the run. `processes` is set for all but the shown dump.
struct DumpSummary {
  std::string dir;                              // relative to the run directory
  std::optional<model::DumpManifest> manifest;  // empty if unreadable
  std::vector<ProcessLine> processes;
};

enum class Severity { error, warning, note, good };

// Severity, evidence and next step for people; `id` for machines.
struct Finding {
  Severity severity = Severity::note;
  std::string id;  // the verdict's id, "dump.incomplete", "input.unreadable", "stall.2", "preload.off"
  std::string title;
  std::vector<std::string> evidence;
  std::string next;     // in words
  std::string command;  // the command to type, if any
};

// Another dump of the same run, for comparison with the shown one.
struct OtherDump {
  std::string dir;
  StackForest forest;
};

// The subject of a page: a run with its verdict, or stacks from any source without a run.
enum class Subject { run, stacks };

// The last calls of the ranks, as report/timeline draws them. Empty: no calls were timed.
struct CallsPicture {
  std::string about;
  struct Kind {
    std::string name;
    std::string word;  // for people
  };
  std::vector<Kind> kinds;  // of calls, that are in it
  std::string json;
  std::string svg;
};

struct RunReport {
  Subject subject = Subject::run;
  std::string dir;           // as the user would type it; for commands only
  std::string culprit_log;   // log of the first culprit, as the user would type it; empty: not kept
  std::string culprit_dump;  // directory with the stacks of the first culprit, as the user would type it
  model::RunManifest run;
  model::Verdict verdict;
  std::string dump;  // the one that the stacks below are of, "dumps/1-hang"; empty if there is none
  std::vector<SourceExcerpt> source = {};  // the culprit's code, innermost first
  Tracebacks tracebacks = {};
  std::vector<StackClass> classes;  // smallest first
  std::vector<NodeRow> nodes;       // culprits first, then nodes with gaps; empty for one node
  std::vector<RankRow> ranks;       // culprits first
  std::vector<CallRow> calls;       // calls of the ranks, culprits first; empty: the hang concerns no call
  std::string calls_about;          // "Call 29 of group "default", 4 ranks (0-3)."
  model::GpuState gpus = {};        // at the shown dump
  model::KernelEvents kernel = {};  // until that dump
  std::string kernel_gap = {};      // why the kernel log is missing; empty if it is not
  std::vector<model::MachineHistory> machines = {};  // by node of the job, on this node's clock
  std::vector<model::GpuHealth> gpu_health = {};     // by node of the job, on the node's clock
  std::vector<model::MemoryLook> memory = {};        // of the ranks, by rank and time
  StackForest forest;
  std::vector<OtherDump> others;  // latest first
  std::vector<DumpSummary> dumps;
  std::vector<std::string> notes;                // unreadable parts
  std::vector<Finding> findings;                 // most important first
  std::optional<model::SpeedReport> speed = {};  // empty if no rank has spans
  CallsPicture picture = {};
  std::optional<model::PipelineReport> pipeline = {};  // without the jobs; empty if there is no pipeline
  std::vector<std::string> pipeline_svgs = {};         // of the first pipelines
  std::vector<std::string> dump_parts =
      {};  // directories of the shown dump, one per node, as the user would type them
};

// The table of calls and the line above it, from the verdict.
std::vector<CallRow> call_rows(const model::Verdict& verdict);
std::string about_calls(const model::VerdictCollective& collective);

// Empty for a run of one node.
std::vector<NodeRow> node_rows(const model::RunManifest& run, const std::vector<RankRow>& ranks);

// Joins run manifest, observations and verdict per rank.
std::vector<RankRow> rank_rows(const model::RunManifest& run, const model::Verdict& verdict,
                               const std::optional<model::DumpManifest>& dump, const Collected& collected);

}  // namespace xpurun::report

namespace xpurun::model {
template <>
inline constexpr std::array<std::string_view, 4> kNames<report::Severity> = {
    base::later("error"), base::later("warning"), base::later("note"), base::later("good")};
}  // namespace xpurun::model
