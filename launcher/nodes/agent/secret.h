// The secret file of `--nats auto`: node rank 0 leaves URL and token of its server there for the other nodes.
#pragma once

#include "common/base/result.h"
#include "launcher/nodes/job_mark.h"

#include <optional>
#include <string>

namespace xpurun::nodes {

struct Secret {
  std::string run;
  launcher::JobMark mark;
  std::string url;
  std::string token;
};

// Where the file lies if the user has named none: beside the run directory, which all nodes must share then.
std::string default_secret_file(const std::string& run_directory, const std::string& run);

// Mode 0600; readers see the old file or the new one.
base::Status write_secret(const std::string& path, const Secret& secret);
// Removes the file if it still has this token: the server has ended, and another job may have written the
// file since.
void remove_secret(const std::string& path, const Secret& written);
// Nothing if the file is not there yet, or is of another job. An error if another user could have written it,
// or if it is malformed.
base::Result<std::optional<Secret>> read_secret(const std::string& path, const std::string& run,
                                                const launcher::JobMark& mark);

}  // namespace xpurun::nodes
