// Timelines: takes the traces of --timeline through the trace session, and reports the traces that were
// missed. Event loop's thread only.
#pragma once

#include "launcher/storage/storage.h"
#include "launcher/timing/timeline_plan.h"
#include "launcher/timing/trace_session.h"

#include <deque>
#include <functional>
#include <set>
#include <string>

namespace xpurun::launcher {

class Timelines {
 public:
  struct Hooks {
    std::function<TimelinePlan::Look()> look;     // `tracing` is set here
    std::function<std::set<base::Rank>()> ranks;  // of this node, the dead ones too
  };

  Timelines(TraceSession& session, Storage& storage, std::string run_dir, std::vector<TimelineSpec> specs,
            Hooks hooks)
      : session_(session),
        storage_(storage),
        run_dir_(std::move(run_dir)),
        plan_(std::move(specs)),
        hooks_(std::move(hooks)) {}

  // About ten times a second, while some process uses a GPU.
  void tick();
  // End of the job; `gpu`: some process has used one.
  void finish(bool gpu);

 private:
  void start(const TimelinePlan::Action& action);
  void ended(const TimelineSpec& spec, const std::string& dir, const std::string& how);

  TraceSession& session_;
  Storage& storage_;
  std::string run_dir_;
  TimelinePlan plan_;
  Hooks hooks_;
  std::string current_;               // directory of the running trace; empty: none
  std::deque<std::string> periodic_;  // directories, the oldest first
};

}  // namespace xpurun::launcher
