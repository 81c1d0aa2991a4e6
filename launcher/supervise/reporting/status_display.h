// StatusDisplay: decides whether and when the status line of the job is on the terminal. Event loop's thread
// only.
#pragma once

#include "launcher/options/run_options.h"
#include "launcher/output/live_status.h"
#include "launcher/output/status_line.h"
#include "launcher/processes/process_table.h"

#include <functional>
#include <string>

namespace xpurun::launcher {

// Whether a run has a status line. `nested`: inside the job of another xpurun, which has a line of its own.
bool wants_status_line(const RunOptions& options, bool nested);

class StatusDisplay {
 public:
  struct Parts {
    EventLoop& loop;
    const ProcessTable& table;
    const RunOptions& options;
  };

  StatusDisplay(Parts parts, FooterRecord& record, std::function<LiveStatus()> status);

  // Without effect if no line is wanted.
  void start();
  void stop() { line_.stop(); }
  void hide() { line_.hide(); }

  // Empty for a job of a single process, unless the user asked for the line.
  std::string text(size_t columns) const;

 private:
  Parts parts_;
  std::function<LiveStatus()> status_;
  StatusLine line_;
};

}  // namespace xpurun::launcher
