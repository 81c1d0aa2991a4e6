// Kubernetes shows what a container wrote to its termination log: `kubectl describe pod` then has the
// verdict.
#pragma once

#include "common/model/verdict.h"

#include <string>

namespace xpurun::launcher {

inline constexpr size_t kTerminationBytes = 4096;  // Kubernetes keeps no more of a container

// Sentence, evidence, the next step, one per line; cut between lines if the text is too long.
std::string termination_message(const model::Verdict& verdict);

// The file already exists, because it is a mount. Any other kind of file stays untouched.
void write_termination_message(const std::string& path, const std::string& message);

}  // namespace xpurun::launcher
