// Kubernetes shows what a container wrote to its termination log: `kubectl describe pod` then has the
// verdict.
#pragma once

#include "common/model/verdict.h"

#include <string>

namespace xpurun::launcher {

inline constexpr size_t kTerminationBytes = 4096;  // Kubernetes keeps no more of a container

// Sentence, evidence, the next step, one to a line; cut between lines where it would be too long.
std::string termination_message(const model::Verdict& verdict);

// The file is there before: a mount. Anything but a regular file is left alone.
void write_termination_message(const std::string& path, const std::string& message);

}  // namespace xpurun::launcher
