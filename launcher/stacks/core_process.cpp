#include "launcher/stacks/core_process.h"

#include "launcher/processes/identity.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

namespace xpurun::launcher {

namespace {

// The user has named the file, so RANK alone is enough, after the variables of a launcher.
std::optional<Identity> identity_of(std::map<std::string, std::string> environment) {
  const auto known = identity_from(environment);
  if (known) {
    return known;
  }
  environment.emplace("WORLD_SIZE", "0");
  return identity_from(environment);
}

}  // namespace

void identify(std::vector<CoreProcess>& processes) {
  for (CoreProcess& p : processes) {
    if (const auto host = p.environment.find("HOSTNAME"); host != p.environment.end()) {
      p.stacks.host = host->second;
    }
  }
  for (CoreProcess& p : processes) {
    const auto identity = identity_of(p.environment);
    if (!identity || p.stacks.python_version.empty()) {
      continue;
    }
    const bool worker = std::any_of(processes.begin(), processes.end(), [&](const CoreProcess& other) {
      return other.stacks.pid == p.parent && other.stacks.host == p.stacks.host &&
             !other.stacks.python_version.empty() && identity_of(other.environment) == identity;
    });
    p.stacks.rank = identity->rank;
    p.stacks.local_rank = identity->local_rank;
    p.stacks.role = worker ? model::ProcessRole::worker : model::ProcessRole::rank;
  }
}

}  // namespace xpurun::launcher
