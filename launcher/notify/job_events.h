// JobEvents: derives the events of --on-event from the run, and decides which are reported: each hang once,
// the first of a wave of failures, a recovery only after its hang. Event loop's thread only.
#pragma once

#include "common/model/notify/job_event.h"
#include "launcher/journal/journal.h"
#include "launcher/options/run_options.h"
#include "launcher/processes/death_ledger.h"
#include "launcher/processes/process_table.h"

#include <functional>
#include <optional>
#include <string>

namespace xpurun::launcher {

class JobEvents {
 public:
  struct Parts {
    EventLoop& loop;
    const ProcessTable& table;
    const DeathLedger& ledger;
    const Journal& journal;
    const RunOptions& options;
  };
  // `directory` of the run is absolute.
  JobEvents(Parts parts, std::string directory, std::function<void(const model::JobEvent&)> report)
      : parts_(parts), directory_(std::move(directory)), report_(std::move(report)) {}

  // The verdict on a stall, or a later verdict on the same stall. Reported once if the hang is confirmed,
  // and once as a stall if it was found before the hang timeout.
  void hang(const model::Stall& stall);
  // The stall has passed, or its ranks have been restarted.
  void recovered(const model::Stall& stall);
  // A process has failed by itself. The event is a crash if the process is a rank and died of a signal.
  void died(const TrackedProcess& process, base::WaitStatus status);
  // Python reports an exception. It is reported if it ends the main thread of a rank that xpurun is not
  // ending.
  void raised(const model::PythonException& exception);
  // The steps take longer than before.
  void slower(const std::string& sentence, const model::RankSet& ranks = {});
  // Ranks have made different calls that ended: the job goes on with wrong data.
  void mismatched(const std::string& sentence, const model::RankSet& ranks);
  // The memory of these ranks grows and will reach its limit.
  void memory_grows(const std::string& sentence, const model::RankSet& ranks);
  // The last verdict has been made.
  void ended();

 private:
  model::JobEvent event(model::JobEventKind kind, std::string sentence) const;
  void report(const model::JobEvent& event);
  // Failures that follow one another within a minute are a wave: all but the first mostly follow from it.
  bool first_of_a_wave();

  Parts parts_;
  std::string directory_;
  std::function<void(const model::JobEvent&)> report_;
  int hang_reported_ = 0;   // number of the last stall that was reported
  int stall_reported_ = 0;  // likewise, as one that was found early
  std::optional<base::MonoNs> last_failure_;
};

}  // namespace xpurun::launcher
