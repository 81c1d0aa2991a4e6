// JobJoin: finds in the environment of the ranks that the job has other nodes, and which node this one is.
// Event loop's thread only.
#pragma once

#include "launcher/nodes/job_identity.h"
#include "launcher/nodes/node_messages.h"
#include "launcher/options/run_options.h"
#include "launcher/processes/process_table.h"

#include <optional>
#include <string>

namespace xpurun::launcher {

class JobJoin {
 public:
  // `directory`: the run directory, absolute.
  JobJoin(const ProcessTable& table, const RunOptions& options, std::string host, std::string directory)
      : table_(table), options_(options), host_(std::move(host)), directory_(std::move(directory)) {}

  // Call when a further rank is watched. Returns once the first message to the helper, if the job has other
  // nodes to join. The error text is for the user.
  std::optional<base::Result<StartMessage>> look();
  const JobIdentity& identity() const { return identity_; }
  // How to join the other nodes: returned once, if there are other nodes and --nats is not given; else empty.
  std::string hint();

 private:
  const ProcessTable& table_;
  const RunOptions& options_;
  std::string host_;
  std::string directory_;
  JobIdentity identity_;
  bool tried_ = false;
  bool hint_given_ = false;
};

}  // namespace xpurun::launcher
