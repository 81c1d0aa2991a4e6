// StallHandler: reacts to a stall that the watcher raises, escalates or clears. A stall requests a dump, and
// each dump that shows the open stall requests a report. In a job of several nodes, the nodes decide
// together. Event loop's thread only.
#pragma once

#include "launcher/dumps/dump_coordinator.h"
#include "launcher/ending/job_state.h"
#include "launcher/journal/journal.h"
#include "launcher/options/run_options.h"

#include <functional>
#include <utility>

namespace xpurun::launcher {

class StallHandler {
 public:
  struct Parts {
    Journal& journal;
    DumpCoordinator& dumps;
    const JobState& job;
    const RunOptions& options;
  };
  // The other nodes. In a job of one node, all of these return false.
  struct Nodes {
    std::function<bool()> raised;     // true: they take over
    std::function<bool()> escalated;  // true: they take over
    std::function<bool()> cleared;    // true: the stall stays open
    std::function<bool()> lead;       // the verdict comes from all nodes
    std::function<void()> judge_again;
  };
  struct Hooks {
    std::function<void()> request_report;
    std::function<double(base::Rank)> still_s;  // seconds without progress
    std::function<bool()> close;                // closes the stall; true: a report is wanted
  };

  StallHandler(Parts parts, Nodes nodes, Hooks hooks)
      : parts_(parts), nodes_(std::move(nodes)), hooks_(std::move(hooks)) {}

  // `longest`: the rank that has been still longest.
  void raised(base::Rank longest);
  void escalated();
  void cleared();
  // The stall of all nodes has ended.
  void cleared_everywhere();
  // Stacks of the open stall are new or complete.
  void report();
  // A dump has ended. A verdict that came during the dump may have left the decision to end the job to the
  // next verdict.
  void dumped(bool for_stall);
  // The evidence of a dump is complete. The dump may belong to a death during a stall.
  void evidence_collected(bool of_a_stall);
  bool open() const { return std::as_const(parts_.journal).open_stall() != nullptr; }

 private:
  Parts parts_;
  Nodes nodes_;
  Hooks hooks_;
};

}  // namespace xpurun::launcher
