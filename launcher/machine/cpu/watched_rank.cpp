#include "launcher/machine/cpu/watched_rank.h"

#include "common/base/strings.h"

namespace xpurun::launcher {

std::string allowed_cpus(const base::ProcFs& proc, base::Pid pid) {
  constexpr std::string_view kName = "Cpus_allowed_list:";
  const std::string status = proc.text(pid, "status");
  for (const std::string_view line : base::split(status, '\n')) {
    if (line.starts_with(kName)) {
      return std::string(base::trim(line.substr(kName.size())));
    }
  }
  return {};
}

}  // namespace xpurun::launcher
