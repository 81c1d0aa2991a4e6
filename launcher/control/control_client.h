// ControlClient: asks a running supervisor through its control socket (control_server.h has the protocol).
// One request per call; blocks at most for the given time.
#pragma once

#include "common/base/result.h"

#include <string>

namespace xpurun::launcher {

class ControlClient {
 public:
  // Path of the socket, from run.json.
  explicit ControlClient(std::string path) : path_(std::move(path)) {}

  // Requests a dump of every process. Returns its directory, relative to the run directory:
  // "dumps/2-request".
  base::Result<std::string> dump(double timeout_s) const;
  // Sends a request, one line of JSON, and returns the supervisor's answer, one line of JSON. A refusal is an
  // error, and so is E-CONTROL if nobody listens: the supervisor has ended or was killed.
  base::Result<std::string> ask(const std::string& request, double timeout_s) const;
  // The answer to "status", with the ranks of all nodes.
  base::Result<std::string> status(double timeout_s) const;

 private:
  std::string path_;
};

}  // namespace xpurun::launcher
