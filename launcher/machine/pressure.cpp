#include "launcher/machine/pressure.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "launcher/machine/memory/control_groups.h"
#include "launcher/os/cpu_ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <unistd.h>

namespace xpurun::launcher {

using model::MachineFact;
using model::MachineReading;

namespace {

constexpr double kMicrosecondsPerSecond = 1e6;

struct PressureFile {
  std::string_view name;
  std::string_view line;  // "some": at least one thread waits; "full": all wait
  MachineFact fact;
};

// Of the CPU, all threads of a group wait only where the group is kept from running; of the host they never
// do.
constexpr PressureFile kHostCpu = {"cpu", "some", MachineFact::cpu_pressure};
constexpr PressureFile kPressures[] = {{"cpu", "full", MachineFact::cpu_pressure},
                                       {"memory", "full", MachineFact::memory_pressure},
                                       {"io", "full", MachineFact::io_pressure}};

// "some avg10=0.00 avg60=0.00 avg300=0.00 total=4711", in microseconds
std::optional<uint64_t> stall_total(std::string_view text, std::string_view which) {
  for (const std::string_view line : base::split(text, '\n')) {
    const size_t at = line.find("total=");
    if (line.starts_with(which) && at != std::string_view::npos) {
      const auto total = base::parse_int(base::trim(line.substr(at + 6)));
      return total && *total >= 0 ? std::optional(static_cast<uint64_t>(*total)) : std::nullopt;
    }
  }
  return std::nullopt;
}

void add_pressure(const PressureFile& file, std::string_view text, const std::string& object,
                  MachineReading& out) {
  if (const auto total = stall_total(text, file.line)) {
    out.values.push_back(
        {.fact = file.fact, .object = object, .value = static_cast<double>(*total), .detail = {}});
  }
}

double ticks_to_us(uint64_t ticks) {
  return base::ticks_to_s(ticks) * kMicrosecondsPerSecond;
}

}  // namespace

void read_pressure(const HostFiles& host, base::Pid pid, MachineReading& out) {
  for (const PressureFile& file : kPressures) {
    const std::string path = fmt::format("pressure/{}", file.name);
    const std::string text = host.proc_text(path);
    if (text.empty()) {
      // The file of a kernel that was started without psi=1 can be opened, but not be read.
      auto missing = host.missing(host.proc_path(path));
      out.missing.push_back(missing.value_or(model::MissingSource{
          .source = host.proc_path(path), .reason = "the kernel does not count (psi=0)"}));
      break;
    }
    add_pressure(file.fact == kHostCpu.fact ? kHostCpu : file, text, "host", out);
  }
  const std::string group = pid > 0 ? control_group_path(host.proc().text(pid, "cgroup"), "") : std::string();
  if (group.size() < 2) {
    return;
  }
  for (const PressureFile& file : kPressures) {
    for (const char* mount : {"fs/cgroup", "fs/cgroup/unified"}) {
      const std::string text = host.sys_text(fmt::format("{}{}/{}.pressure", mount, group, file.name));
      if (!text.empty()) {
        add_pressure(file, text, base::sanitize(group), out);
        break;
      }
    }
  }
}

void InterruptReader::read(const HostFiles& host, const std::vector<int>& cpus, MachineReading& out) {
  const std::string stat = host.proc_text("stat");
  const auto ticks = cpu_ticks_in(stat);
  if (!ticks) {
    out.missing.push_back({.source = host.proc_path("stat"), .reason = ticks.error().what});
    return;
  }
  if (ticks->cpus > 0) {
    out.values.push_back({.fact = MachineFact::stolen,
                          .object = "host",
                          .value = ticks_to_us(ticks->stolen) / ticks->cpus,
                          .detail = {}});
  }
  // The source of interrupts that came most often since the last reading.
  std::string busiest;
  uint64_t most = 0;
  std::map<std::string, uint64_t> now;
  const std::string interrupts = host.proc_text("interrupts");
  if (interrupts.empty()) {
    out.missing.push_back(host.missing(host.proc_path("interrupts"))
                              .value_or(model::MissingSource{.source = host.proc_path("interrupts"),
                                                             .reason = "empty or masked"}));
  }
  for (const std::string_view line : base::split(interrupts, '\n')) {
    // " 41:  12  7 ... PCI-MSI 524288-edge  mlx5_comp3": a number per CPU, then words
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) {
      continue;
    }
    uint64_t sum = 0;
    std::string_view last;
    for (const std::string_view word : base::split(line.substr(colon + 1), ' ')) {
      const auto number = last.empty() ? base::parse_int(word) : std::nullopt;
      if (number && *number >= 0) {
        sum += static_cast<uint64_t>(*number);
      } else if (!word.empty()) {
        last = word;
      }
    }
    const std::string name = base::sanitize(fmt::format("{} {}", base::trim(line.substr(0, colon)), last));
    now[name] = sum;
    const auto before = counts_.find(name);
    if (before != counts_.end() && sum > before->second && sum - before->second > most) {
      most = sum - before->second;
      busiest = name;
    }
  }
  counts_ = std::move(now);
  const std::set<int> wanted(cpus.begin(), cpus.end());
  for (const std::string_view line : base::split(stat, '\n')) {
    // "cpu3 user nice system idle iowait irq softirq steal ..."
    const auto words = base::split(line, ' ');
    const auto cpu =
        line.starts_with("cpu") && words.size() > 7 ? base::parse_int(words[0].substr(3)) : std::nullopt;
    if (!cpu || (!wanted.empty() && wanted.count(static_cast<int>(*cpu)) == 0)) {
      continue;
    }
    const auto irq = base::parse_int(words[6]);
    const auto soft = base::parse_int(words[7]);
    if (irq && soft && *irq >= 0 && *soft >= 0) {
      out.values.push_back({.fact = MachineFact::interrupts,
                            .object = fmt::format("cpu {}", *cpu),
                            .value = ticks_to_us(static_cast<uint64_t>(*irq) + static_cast<uint64_t>(*soft)),
                            .detail = busiest});
    }
  }
}

void read_frequency(const HostFiles& host, const std::vector<int>& cpus, MachineReading& out) {
  // Limits are those of all CPUs or of one kind of them: the first one that is limited speaks for all.
  for (const int cpu : cpus) {
    const std::string directory = fmt::format("devices/system/cpu/cpu{}/cpufreq", cpu);
    const auto limit = host.sys_number(directory + "/scaling_max_freq");
    const auto able = host.sys_number(directory + "/cpuinfo_max_freq");
    const std::string governor = host.sys_text(directory + "/scaling_governor");
    const std::string driver = host.sys_text(directory + "/scaling_driver");
    if (!limit || !able || *able == 0) {
      continue;
    }
    // The governor of these drivers is called powersave, and scales with the load.
    const bool scales = driver.starts_with("intel_pstate") || driver.starts_with("amd-pstate-epp") ||
                        driver.starts_with("amd_pstate_epp");
    const bool saves = governor == "powersave" && !scales;
    const bool low = static_cast<double>(*limit) < 0.9 * static_cast<double>(*able);
    if (saves || low) {
      out.values.push_back({.fact = MachineFact::cpu_limited,
                            .object = fmt::format("cpu {}", cpu),
                            .value = 1,
                            .detail = base::sanitize(fmt::format("{} of {} MHz, governor {}", *limit / 1000,
                                                                 *able / 1000, governor))});
      break;
    }
  }
  std::set<uint64_t> packages;
  for (const int cpu : cpus) {
    const std::string directory = fmt::format("devices/system/cpu/cpu{}", cpu);
    const auto package = host.sys_number(directory + "/topology/physical_package_id");
    const auto count = host.sys_number(directory + "/thermal_throttle/package_throttle_count");
    if (package && count && packages.insert(*package).second) {
      out.values.push_back({.fact = MachineFact::cpu_throttled,
                            .object = fmt::format("package {}", *package),
                            .value = static_cast<double>(*count),
                            .detail = {}});
    }
  }
}

}  // namespace xpurun::launcher
