#include "launcher/machine/host_use.h"

#include "common/base/strings.h"
#include "launcher/machine/host/blank_words.h"
#include "launcher/os/cpu_ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace xpurun::launcher {

using model::HostUse;
using model::MachineReading;

namespace {

constexpr size_t kMostDevices = 8;  // disks, interfaces and ports each
constexpr double kSectorBytes = 512;
constexpr double kWordBytes = 4;  // the unit of an InfiniBand port's data counters

// "MemTotal:       24645016 kB"
std::optional<double> kib_of(std::string_view meminfo, std::string_view name) {
  for (const std::string_view line : base::split(meminfo, '\n')) {
    if (line.starts_with(name)) {
      const std::string_view rest = base::trim(line.substr(name.size()));
      const auto number = base::parse_int(rest.substr(0, rest.find(' ')));
      return number && *number >= 0 ? std::optional(static_cast<double>(*number)) : std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace

void HostUseReader::put(HostUse use, const std::string& object, double counter, MachineReading& out) {
  const std::pair key(use, object);
  now_[key] = counter;
  const auto before = counters_.find(key);
  if (seconds_ > 0 && before != counters_.end() && counter >= before->second) {
    out.use.push_back(
        {.use = use, .object = base::sanitize(object), .value = (counter - before->second) / seconds_});
  }
}

void HostUseReader::read(const HostFiles& host, base::MonoNs now, MachineReading& out) {
  seconds_ = at_ == 0 ? 0 : base::ns_to_s(now - at_);
  at_ = now;
  now_.clear();
  if (const auto ticks = cpu_ticks_in(host.proc_text("stat")); ticks && ticks->cpus > 0) {
    put(HostUse::cpu, "", base::ticks_to_s(ticks->busy) / ticks->cpus, out);
  }
  const std::string meminfo = host.proc_text("meminfo");
  const auto total = kib_of(meminfo, "MemTotal:");
  const auto available = kib_of(meminfo, "MemAvailable:");
  if (total && available && *total > 0) {
    out.use.push_back(
        {.use = HostUse::memory, .object = {}, .value = std::clamp(1 - *available / *total, 0.0, 1.0)});
  }
  size_t disks = 0;
  const std::string diskstats = host.proc_text("diskstats");
  for (const std::string_view line : base::split(diskstats, '\n')) {
    // "254 0 vda reads merged sectors ms writes merged sectors ms ..."; a partition has no directory of its
    // own
    const auto words = blank_words(line);
    const std::string name(words.size() > 9 ? words[2] : "");
    const bool disk = !name.empty() && name.find('/') == std::string::npos &&
                      !host.sys_names(fmt::format("block/{}/device", name)).empty();
    const auto read = disk ? base::parse_int(words[5]) : std::nullopt;
    const auto written = disk ? base::parse_int(words[9]) : std::nullopt;
    if (read && written && disks++ < kMostDevices) {
      put(HostUse::disk_read, name, static_cast<double>(*read) * kSectorBytes, out);
      put(HostUse::disk_written, name, static_cast<double>(*written) * kSectorBytes, out);
    }
  }
  size_t interfaces = 0;
  for (const std::string& name : host.sys_names("class/net")) {
    const std::string directory = "class/net/" + name;
    const auto received = host.sys_number(directory + "/statistics/rx_bytes");
    const auto sent = host.sys_number(directory + "/statistics/tx_bytes");
    if (received && sent && !host.sys_names(directory + "/device").empty() && interfaces++ < kMostDevices) {
      put(HostUse::net_received, name, static_cast<double>(*received), out);
      put(HostUse::net_sent, name, static_cast<double>(*sent), out);
    }
  }
  size_t ports = 0;
  for (const std::string& adapter : host.sys_names("class/infiniband")) {
    for (const std::string& port : host.sys_names(fmt::format("class/infiniband/{}/ports", adapter))) {
      const std::string counters = fmt::format("class/infiniband/{}/ports/{}/counters/", adapter, port);
      const auto received = host.sys_number(counters + "port_rcv_data");
      const auto sent = host.sys_number(counters + "port_xmit_data");
      if (received && sent && ports++ < kMostDevices) {
        const std::string object = fmt::format("{}/{}", adapter, port);
        put(HostUse::link_received, object, static_cast<double>(*received) * kWordBytes, out);
        put(HostUse::link_sent, object, static_cast<double>(*sent) * kWordBytes, out);
      }
    }
  }
  counters_ = now_;
}

}  // namespace xpurun::launcher
