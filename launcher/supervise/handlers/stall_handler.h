// StallHandler: reacts to the changes of stalls that the watcher sees. A new stall, and one whose ranks have
// changed, requests a dump, and each dump that shows an open stall requests a report. In a job of several
// nodes, the nodes decide together. Event loop's thread only.
#pragma once

#include "launcher/dumps/dump_coordinator.h"
#include "launcher/ending/job_state.h"
#include "launcher/journal/journal.h"
#include "launcher/options/run_options.h"
#include "launcher/watch/hang_detector.h"

#include <functional>
#include <map>
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
    std::function<bool()> raised;  // true: they take over
    // A stall has changed, or has outlasted --busy-timeouts. True: they take over.
    std::function<bool(bool escalated)> changed;
    std::function<bool()> cleared;  // no stall of this node is left; true: the stall of all nodes stays open
    std::function<bool()> lead;     // the verdict comes from all nodes
    std::function<void()> judge_again;
  };
  struct Hooks {
    std::function<void()> request_report;
    std::function<double(base::Rank)> still_s;   // seconds without progress
    std::function<bool(model::Stall&)> close;    // closes the stall; true: a report is wanted
    std::function<bool()> was_interrupted = {};  // the user has sent a signal that ends jobs
  };

  StallHandler(Parts parts, Nodes nodes, Hooks hooks)
      : parts_(parts), nodes_(std::move(nodes)), hooks_(std::move(hooks)) {}

  void changed(const StallEvent& event);
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
  void raised(const StallEvent& event);
  void regrouped(const StallEvent& event);
  void look_again(const StallEvent& event);
  void ended(const StallEvent& event);
  void close(model::Stall& stall);
  // The record of this stall of the watcher; null if there is none or it is closed.
  model::Stall* record_of(const StallEvent& event);
  // The user has ended the job while a hang that was reported lasted.
  bool keeps_verdict() const;
  void ask(model::Stall& stall);
  void request_dump(const model::Stall& stall, base::Rank longest);

  Parts parts_;
  Nodes nodes_;
  Hooks hooks_;
  std::map<int, int> numbers_;  // of the records, by the watcher's numbers
};

}  // namespace xpurun::launcher
