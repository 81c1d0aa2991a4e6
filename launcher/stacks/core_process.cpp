#include "launcher/stacks/core_process.h"

#include "common/base/strings.h"
#include "launcher/processes/identity.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>

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

// Shells and similar programs pass the environment of a rank on.
bool is_wrapper(const model::ProcessStacks& process) {
  const std::string_view program = process.cmdline.empty() ? "" : base::base_name(process.cmdline.front());
  return std::any_of(
      std::begin(wire::kWrapperPrograms), std::end(wire::kWrapperPrograms), [&](std::string_view wrapper) {
        return program == wrapper || (program.starts_with('-') && program.substr(1) == wrapper);
      });
}

// Of the processes with one rank: those in Python, and where there are none the programs that may be the
// rank.
model::ProcessRole role_of(const CoreProcess& p, const std::vector<CoreProcess>& all) {
  const auto identity = identity_of(p.environment);
  const auto is_same = [&](const CoreProcess& other) {
    return &other != &p && other.stacks.host == p.stacks.host && identity_of(other.environment) == identity;
  };
  const bool python = !p.stacks.python_version.empty();
  const bool below = std::any_of(all.begin(), all.end(), [&](const CoreProcess& other) {
    return is_same(other) && other.stacks.pid == p.parent &&
           (python ? !other.stacks.python_version.empty() : !is_wrapper(other.stacks));
  });
  if (python) {
    return below ? model::ProcessRole::worker : model::ProcessRole::rank;
  }
  const bool beside_python = std::any_of(all.begin(), all.end(), [&](const CoreProcess& other) {
    return is_same(other) && !other.stacks.python_version.empty();
  });
  return below || beside_python || is_wrapper(p.stacks) ? model::ProcessRole::other
                                                        : model::ProcessRole::rank;
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
    const model::ProcessRole role = identity ? role_of(p, processes) : model::ProcessRole::other;
    if (role != model::ProcessRole::other) {
      p.stacks.rank = identity->rank;
      p.stacks.local_rank = identity->local_rank;
      p.stacks.role = role;
    }
  }
}

}  // namespace xpurun::launcher
