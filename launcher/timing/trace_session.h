// TraceSession: the trace that waits for its start or gathers events, at most one at a time. Before the start
// it raises the timing level, and it ends the trace when every rank has delivered, after a time limit, or on
// request. Event loop's thread only.
#pragma once

#include "launcher/collect/collector.h"
#include "launcher/collect/event_files.h"
#include "launcher/collect/trace.h"
#include "launcher/os/timer.h"
#include "launcher/processes/process_table.h"
#include "launcher/storage/storage.h"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace xpurun::launcher {

class TraceSession {
 public:
  struct Parts {
    EventLoop& loop;
    Storage& storage;
    const ProcessTable& table;
    Collector& collector;
  };
  // `dir` is relative to the run directory; `how` is "complete", "timeout", "limit of calls", "reset", "end
  // of the run" or "no rank uses a GPU".
  using Ended = std::function<void(const std::string& dir, const std::string& how)>;

  // `level_changed` is called when raised() has changed.
  TraceSession(Parts parts, std::string run_dir, std::function<void()> level_changed)
      : parts_(parts), run_dir_(std::move(run_dir)), level_changed_(std::move(level_changed)) {}
  TraceSession(const TraceSession&) = delete;
  TraceSession& operator=(const TraceSession&) = delete;

  // Only while no trace is active. `ended` may be empty; it is called when the files are on disk or the disk
  // has not answered for two seconds.
  void start(TraceRequest request, Ended ended);
  bool active() const { return current_.has_value(); }
  // Of the active trace, relative to the run directory; empty if there is none.
  std::string dir() const { return current_ ? current_->dir : std::string(); }
  // Of the active trace.
  int64_t start_wall_ns() const { return current_ ? current_->trace.request().start_wall_ns : 0; }
  // Whether the active trace needs the timing level "full" now.
  bool raised() const { return current_ && current_->raised; }

  void add(const EventFiles::Source& who, std::span<const wire::Event> events, const wire::Segment& memory);
  // After each drain: ends the trace if all living ranks have delivered.
  void end_if_complete();
  // Does nothing if no trace is active.
  void end(std::string_view how);

 private:
  struct Current {
    Trace trace;
    std::string dir;
    Ended ended;
    bool raised = false;
    bool begun = false;
  };

  void raise();
  void begin();

  Parts parts_;
  std::string run_dir_;
  std::function<void()> level_changed_;
  std::optional<Current> current_;
  Timer timer_{parts_.loop};  // of the current trace
  int count_ = 0;             // of traces in this run
};

}  // namespace xpurun::launcher
