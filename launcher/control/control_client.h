// ControlClient: asks a running supervisor through its control socket (control_server.h has the protocol).
// One request a call; blocks for at most the given time.
#pragma once

#include "common/base/result.h"

#include <string>

namespace xpurun::launcher {

class ControlClient {
 public:
  // Path of the socket, from run.json.
  explicit ControlClient(std::string path) : path_(std::move(path)) {}

  // Has every process dumped; the directory, relative to the run directory: "dumps/2-request".
  base::Result<std::string> dump(double timeout_s) const;
  // The supervisor's one-line JSON answer to any request, itself one line of JSON. A refusal is an error, as
  // is E-CONTROL if nobody listens: the supervisor has ended or was killed.
  base::Result<std::string> ask(const std::string& request, double timeout_s) const;
  // Its answer to "status", with the ranks of all nodes.
  base::Result<std::string> status(double timeout_s) const;

 private:
  std::string path_;
};

}  // namespace xpurun::launcher
