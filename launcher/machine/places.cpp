#include "launcher/machine/places.h"

#include "common/base/strings.h"
#include "launcher/machine/memory/control_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace xpurun::launcher {

using model::RankPlace;

namespace {

constexpr size_t kMostThreads = 64;  // of one rank that are looked at

std::string value_of(const std::map<std::string, std::string>& env, const std::string& name) {
  const auto it = env.find(name);
  return it == env.end() ? std::string() : it->second;
}

int runnable_threads(const base::ProcFs& proc, base::Pid pid) {
  int out = 0;
  size_t seen = 0;
  for (const base::Tid tid : proc.threads(pid)) {
    if (seen++ == kMostThreads) {
      break;
    }
    const auto stat = proc.thread_stat(pid, tid);
    out += stat && stat->state == 'R' ? 1 : 0;
  }
  return out;
}

// The directories of the driver are in the order of the PCI addresses, as CUDA numbers the devices with
// CUDA_DEVICE_ORDER=PCI_BUS_ID and, on hosts with GPUs of one kind, by default.
std::vector<std::string> gpus_of(const HostFiles& host) {
  std::vector<std::string> out;
  std::error_code ec;
  std::filesystem::directory_iterator it(host.proc_path("driver/nvidia/gpus"), ec);
  for (; !ec && it != std::filesystem::directory_iterator(); it.increment(ec)) {
    out.push_back(it->path().filename().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

// The GPU of a rank: the only visible one, or the visible one with its local rank's number.
std::string gpu_of(const std::vector<std::string>& gpus, const std::map<std::string, std::string>& env,
                   int local_rank) {
  if (gpus.empty()) {
    return {};
  }
  std::vector<std::string> visible = gpus;
  if (const auto chosen = env.find("CUDA_VISIBLE_DEVICES"); chosen != env.end()) {
    visible.clear();
    for (const std::string_view word : base::split(chosen->second, ',')) {
      const auto number = base::parse_int(base::trim(word));
      if (!number || *number < 0 || static_cast<size_t>(*number) >= gpus.size()) {
        return {};  // a UUID, or nothing
      }
      visible.push_back(gpus[static_cast<size_t>(*number)]);
    }
  }
  const size_t index = visible.size() == 1 || local_rank < 0 ? 0 : static_cast<size_t>(local_rank);
  const bool known = visible.size() == 1 || local_rank >= 0;
  return known && index < visible.size() ? visible[index] : std::string();
}

// The only device that NCCL_IB_HCA allows: "=mlx5_0:1"; empty if there may be several.
std::string nic_of(const std::map<std::string, std::string>& env) {
  std::string name = value_of(env, "NCCL_IB_HCA");
  if (name.find(',') != std::string::npos || name.starts_with('^') || !name.starts_with('=')) {
    return {};
  }
  name.erase(0, 1);
  return name.substr(0, name.find(':'));
}

}  // namespace

void read_places(const HostFiles& host, const std::vector<WatchedRank>& ranks, model::MachineReading& out) {
  const base::ProcFs proc = host.proc();
  const std::vector<std::string> gpus = gpus_of(host);
  for (const WatchedRank& rank : ranks) {
    const std::string cpus = allowed_cpus(proc, rank.pid);
    if (cpus.empty()) {
      continue;
    }
    const auto env = proc.environ(rank.pid);
    RankPlace place{.rank = rank.rank, .pid = rank.pid, .cpus = cpus};
    const auto threads = base::parse_int(value_of(env, "OMP_NUM_THREADS"));
    place.omp_threads = threads && *threads > 0 && *threads < INT32_MAX ? static_cast<int>(*threads) : 0;
    place.runnable = runnable_threads(proc, rank.pid);
    place.gpu = gpu_of(gpus, env, rank.local_rank);
    if (!place.gpu.empty()) {
      place.gpu_cpus = host.sys_text(fmt::format("bus/pci/devices/{}/local_cpulist", place.gpu));
    }
    place.nic = base::sanitize(nic_of(env));
    if (!place.nic.empty() && place.nic.find('/') == std::string::npos) {
      place.nic_cpus = host.sys_text(fmt::format("class/infiniband/{}/device/local_cpulist", place.nic));
    }
    if (const auto group = memory_control_group(host, rank.pid)) {
      place.memory_group = base::sanitize(group->path);
    }
    out.places.push_back(std::move(place));
  }
}

}  // namespace xpurun::launcher
