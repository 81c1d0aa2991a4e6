#include "launcher/dumps/gpu_question.h"

#include "common/base/strings.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace xpurun::launcher {

namespace {

// Whether a kernel of the rank may be the cause that the recorded calls do not show.
bool kernels_may_explain(const report::CallFinding& fault, base::Rank rank) {
  using enum report::CallFault;
  // These faults are proved by the calls themselves: the ranks disagree about the call.
  switch (fault.fault) {
    case departed:
    case operation:
    case members:
    case root:
    case type:
    case size:
    case splits:
    case swapped:
    case message:
    case order:
      return false;
    // The accused rank may wait for a kernel of its own. The other ranks wait for the accused.
    case not_entered:
    case not_sent:
    case not_received:
    case locked:
      return fault.accused.contains(rank);
    case not_launched:
    case queued:
    case not_finished:
    case all_entered:
      return true;
  }
  return true;
}

}  // namespace

model::GpuStacks gpu_question(model::GpuStacks wanted, const std::optional<report::CallFinding>& fault,
                              base::Rank rank, bool shared) {
  if (wanted == model::GpuStacks::automatic && shared) {
    return model::GpuStacks::never;
  }
  if (wanted == model::GpuStacks::automatic && fault && rank != base::kNoRank &&
      !kernels_may_explain(*fault, rank)) {
    return model::GpuStacks::never;
  }
  return wanted;
}

bool shares_gpu(const std::vector<std::vector<base::Pid>>& processes, base::Pid pid) {
  const auto lists = [pid](const std::vector<base::Pid>& of_gpu) {
    return std::find(of_gpu.begin(), of_gpu.end(), pid) != of_gpu.end();
  };
  const bool known = std::any_of(processes.begin(), processes.end(), lists);
  return std::any_of(processes.begin(), processes.end(), [&](const std::vector<base::Pid>& of_gpu) {
    return of_gpu.size() > 1 && (!known || lists(of_gpu));
  });
}

size_t gpus_of_host(const std::string& devices) {
  constexpr std::string_view kName = "nvidia";
  std::error_code ec;
  size_t out = 0;
  for (const auto& entry : std::filesystem::directory_iterator(devices, ec)) {
    const std::string name = entry.path().filename().string();
    out += name.starts_with(kName) && base::parse_int(std::string_view(name).substr(kName.size())) ? 1 : 0;
  }
  return out;
}

}  // namespace xpurun::launcher
