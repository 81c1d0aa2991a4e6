// EvidenceService: collects evidence beside the stacks of each dump that may explain a hang or a death, and
// at the end of a job of which a process was killed without a dump. Event loop's thread only.
#pragma once

#include "common/model/dump_manifest.h"
#include "launcher/evidence/evidence_job.h"
#include "launcher/journal/journal.h"
#include "launcher/options/run_options.h"
#include "launcher/processes/process_table.h"

#include <functional>
#include <optional>
#include <string>

namespace xpurun::launcher {

class EvidenceService {
 public:
  struct Parts {
    const Journal& journal;
    const ProcessTable& table;
    const RunOptions& options;
  };
  // `of_a_stall`: the dump belongs to a stall.
  using Collected = std::function<void(bool of_a_stall)>;

  EvidenceService(Parts parts, EvidenceJob::Setup setup, Collected collected)
      : parts_(parts), job_(std::move(setup)), collected_(std::move(collected)) {}

  // The dump begins. Its absolute directory exists.
  void dump_begun(const model::DumpManifest& dump, const std::string& directory);
  // The request to the helper; nullopt for a dump that needs no evidence.
  std::optional<EvidenceRequest> request_for(const model::DumpManifest& dump,
                                             const std::string& directory) const;

  bool busy() const { return job_.busy(); }
  // The command has ended, and the caller of xpurun waits for the exit status. `directory`: absolute, of the
  // run.
  void command_ended(const std::string& directory);
  // Whether a process was killed, neither by xpurun nor by the launcher, after the latest evidence.
  bool lacks_evidence() const;
  void give_up(const std::string& why) { job_.give_up(why); }
  bool helper_ended(base::Pid pid, base::WaitStatus status) { return job_.helper_ended(pid, status); }

 private:
  Parts parts_;
  EvidenceJob job_;
  Collected collected_;
  double latest_s_ = -1;  // of the run: begin of the latest collection
};

}  // namespace xpurun::launcher
