#include "launcher/machine/links.h"

#include "common/base/strings.h"
#include "launcher/machine/ethtool.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

namespace xpurun::launcher {

using model::MachineFact;
using model::MachineReading;

namespace {

struct CounterFile {
  std::string_view path;
  MachineFact fact;
};

constexpr CounterFile kPortCounters[] = {
    {"counters/link_downed", MachineFact::link_downed},
    {"counters/link_error_recovery", MachineFact::link_recoveries},
    {"counters/symbol_error", MachineFact::symbol_errors},
    {"counters/port_rcv_errors", MachineFact::receive_errors},
};
// Of RoCE and InfiniBand, by their names in the drivers mlx5 and bnxt_re; they are added up.
constexpr CounterFile kHardwareCounters[] = {
    {"hw_counters/out_of_sequence", MachineFact::retransmissions},
    {"hw_counters/packet_seq_err", MachineFact::retransmissions},
    {"hw_counters/local_ack_timeout_err", MachineFact::retransmissions},
    {"hw_counters/rnr_nak_retry_err", MachineFact::retransmissions},
    {"hw_counters/roce_adp_retrans_to", MachineFact::retransmissions},
    {"hw_counters/rp_cnp_handled", MachineFact::congestion},
    {"hw_counters/np_ecn_marked_roce_packets", MachineFact::congestion},
};
constexpr CounterFile kInterfaceCounters[] = {
    {"statistics/rx_errors", MachineFact::packet_errors},
    {"statistics/tx_errors", MachineFact::packet_errors},
    {"statistics/rx_missed_errors", MachineFact::packets_dropped},
    {"statistics/rx_fifo_errors", MachineFact::packets_dropped},
    {"statistics/tx_dropped", MachineFact::packets_dropped},
};

template <size_t N>
void add_counters(const HostFiles& host, const std::string& directory, const CounterFile (&files)[N],
                  const std::string& object, const std::string& detail, MachineReading& out) {
  std::map<MachineFact, uint64_t> sums;
  for (const CounterFile& file : files) {
    if (const auto value = host.sys_number(fmt::format("{}/{}", directory, file.path))) {
      sums[file.fact] += *value;
    }
  }
  for (const auto& [fact, sum] : sums) {
    out.values.push_back(
        {.fact = fact, .object = object, .value = static_cast<double>(sum), .detail = detail});
  }
}

// "16.0 GT/s PCIe" -> 16
double leading_number(std::string_view text) {
  double out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

// "TOTAL_ERR_COR 12" in the last line of an AER file.
std::optional<uint64_t> total_of(std::string_view text, std::string_view name) {
  for (const std::string_view line : base::split(text, '\n')) {
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ') {
      const auto number = base::parse_int(base::trim(line.substr(name.size())));
      return number && *number >= 0 ? std::optional(static_cast<uint64_t>(*number)) : std::nullopt;
    }
  }
  return std::nullopt;
}

enum class DeviceClass { other, gpu, network, disk };

DeviceClass class_of(std::string_view text) {
  text.remove_prefix(text.starts_with("0x") ? 2 : 0);
  if (text.starts_with("0300") || text.starts_with("0302")) {
    return DeviceClass::gpu;
  }
  if (text.starts_with("0200") || text.starts_with("0207")) {
    return DeviceClass::network;
  }
  return text.starts_with("0108") ? DeviceClass::disk : DeviceClass::other;
}

// The name by which people know the device: of its network interface, InfiniBand device or disk.
std::string name_of_device(const HostFiles& host, const std::string& directory, DeviceClass kind) {
  if (kind == DeviceClass::gpu) {
    return "GPU";
  }
  for (const char* below : {"infiniband", "net", "nvme"}) {
    const auto names = host.sys_names(fmt::format("{}/{}", directory, below));
    if (!names.empty()) {
      return names.front();
    }
  }
  return {};
}

// What device and slot can do: the device's own limit and that of the bridge above it.
double most_of(const HostFiles& host, const std::string& directory, std::string_view file) {
  const double own = leading_number(host.sys_text(fmt::format("{}/{}", directory, file)));
  const std::string target = host.sys_link(directory);  // ".../0000:3a:00.0/0000:3b:00.0"
  const size_t last = target.rfind('/');
  const std::string_view above = last == std::string::npos
                                     ? std::string_view()
                                     : base::base_name(std::string_view(target).substr(0, last));
  const double bridge =
      above.empty() ? 0 : leading_number(host.sys_text(fmt::format("bus/pci/devices/{}/{}", above, file)));
  return bridge > 0 && bridge < own ? bridge : own;
}

void read_device(const HostFiles& host, const std::string& address, MachineReading& out) {
  const std::string directory = fmt::format("bus/pci/devices/{}", address);
  const DeviceClass kind = class_of(host.sys_text(directory + "/class"));
  if (kind == DeviceClass::other) {
    return;
  }
  const std::string name = name_of_device(host, directory, kind);
  const std::string object = name.empty() ? address : fmt::format("{} ({})", address, name);
  const std::string speed = host.sys_text(directory + "/current_link_speed");
  const double most_speed = most_of(host, directory, "max_link_speed");
  const double width = leading_number(host.sys_text(directory + "/current_link_width"));
  const double most_width = most_of(host, directory, "max_link_width");
  // 0 and 255: not known.
  if (width > 0 && width < 255 && most_width > 0 && most_width < 255) {
    out.values.push_back({.fact = MachineFact::pcie_narrow,
                          .object = object,
                          .value = width < most_width ? 1.0 : 0.0,
                          .detail = fmt::format("x{} of x{}", width, most_width)});
  }
  // A GPU without work lowers the speed of its link by itself.
  if (kind != DeviceClass::gpu && leading_number(speed) > 0 && most_speed > 0) {
    out.values.push_back({.fact = MachineFact::pcie_slow,
                          .object = object,
                          .value = leading_number(speed) < most_speed ? 1.0 : 0.0,
                          .detail = base::sanitize(fmt::format("{} of {} GT/s", speed, most_speed))});
  }
  if (const auto corrected = total_of(host.sys_text(directory + "/aer_dev_correctable"), "TOTAL_ERR_COR")) {
    out.values.push_back({.fact = MachineFact::pcie_corrected,
                          .object = object,
                          .value = static_cast<double>(*corrected),
                          .detail = {}});
  }
  const auto fatal = total_of(host.sys_text(directory + "/aer_dev_fatal"), "TOTAL_ERR_FATAL");
  const auto nonfatal = total_of(host.sys_text(directory + "/aer_dev_nonfatal"), "TOTAL_ERR_NONFATAL");
  if (fatal || nonfatal) {
    out.values.push_back({.fact = MachineFact::pcie_uncorrected,
                          .object = object,
                          .value = static_cast<double>(fatal.value_or(0) + nonfatal.value_or(0)),
                          .detail = {}});
  }
}

}  // namespace

void read_infiniband(const HostFiles& host, MachineReading& out) {
  for (const std::string& device : host.sys_names("class/infiniband")) {
    const std::string ports = fmt::format("class/infiniband/{}/ports", device);
    for (const std::string& port : host.sys_names(ports)) {
      const std::string directory = fmt::format("{}/{}", ports, port);
      const std::string object = base::sanitize(fmt::format("{}/{}", device, port));
      const std::string state = host.sys_text(directory + "/state");  // "4: ACTIVE"
      const std::string detail = base::sanitize(host.sys_text(directory + "/rate"));
      add_counters(host, directory, kPortCounters, object, detail, out);
      add_counters(host, directory, kHardwareCounters, object, detail, out);
      if (!state.empty()) {
        out.values.push_back({.fact = MachineFact::port_down,
                              .object = object,
                              .value = state.find("ACTIVE") == std::string::npos ? 1.0 : 0.0,
                              .detail = base::sanitize(state)});
      }
    }
  }
}

void read_interfaces(const HostFiles& host, MachineReading& out) {
  for (const std::string& name : host.sys_names("class/net")) {
    const std::string directory = fmt::format("class/net/{}", name);
    if (name == "lo") {
      continue;
    }
    const std::string object = base::sanitize(name);
    if (const auto changes = host.sys_number(directory + "/carrier_changes")) {
      out.values.push_back({.fact = MachineFact::carrier_changes,
                            .object = object,
                            .value = static_cast<double>(*changes),
                            .detail = {}});
    }
    if (!host.sys_link(directory + "/device").empty()) {
      add_counters(host, directory, kInterfaceCounters, object, {}, out);
      if (host.is_this_host()) {
        add_adapter_counters(adapter_counters(name), object, out);
      }
    }
  }
}

void read_tcp(const HostFiles& host, MachineReading& out) {
  // Two lines "Tcp:", names and numbers.
  std::vector<std::string_view> names;
  const std::string text = host.proc_text("net/snmp");
  for (const std::string_view line : base::split(text, '\n')) {
    if (!line.starts_with("Tcp: ")) {
      continue;
    }
    const auto words = base::split(line, ' ');
    if (names.empty()) {
      names = words;
      continue;
    }
    for (size_t i = 0; i < std::min(names.size(), words.size()); ++i) {
      const auto number = base::parse_int(words[i]);
      if (number && (names[i] == "RetransSegs" || names[i] == "OutSegs")) {
        out.values.push_back(
            {.fact = names[i] == "OutSegs" ? MachineFact::tcp_segments : MachineFact::tcp_retransmissions,
             .object = "host",
             .value = static_cast<double>(*number),
             .detail = {}});
      }
    }
    return;
  }
}

void read_pci(const HostFiles& host, MachineReading& out) {
  for (const std::string& address : host.sys_names("bus/pci/devices")) {
    read_device(host, address, out);
  }
}

}  // namespace xpurun::launcher
